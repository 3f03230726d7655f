package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"harness.invalid/harness/train"
)

// learned says what a vocabulary is.
type learned struct {
	File         string  `json:"file"`
	Tokens       int     `json:"tokens"`
	UnknownWords float64 `json:"unknown_words"` // share of the text's words that are [UNK]
}

func newVocab() *cobra.Command {
	cmd := &cobra.Command{Use: "vocab", Short: "Work with vocabularies"}
	var text []string
	var out, format string
	var size, alphabet int
	var cased bool
	learn := &cobra.Command{
		Use:   "train --text FILE --out FILE",
		Short: "Learn a WordPiece vocabulary from text",
		Example: `  harness vocab train --text wiki.txt --size 30522 --out vocab.txt
  harness vocab train --text zhwiki.txt --size 8000 --alphabet 6000 --out vocab.txt`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			n, unknown, err := train.LearnVocab(out, text, size, alphabet, !cased)
			if err != nil {
				return err
			}
			if format == "json" {
				return writeJSON(cmd.OutOrStdout(), learned{out, n, unknown})
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: %d tokens\n", out, n)
			if unknown > 0.01 {
				fmt.Fprintf(cmd.ErrOrStderr(), "%.1f %% of the text's words are [UNK]: they have characters beyond the %d most frequent ones; "+
					"--alphabet keeps more\n", 100*unknown, alphabet)
			}
			return nil
		},
	}
	learn.Flags().StringArrayVar(&text, "text", nil, "text to learn from (repeatable)")
	learn.Flags().StringVar(&out, "out", "", "file to write")
	learn.Flags().IntVar(&size, "size", 30522, "greatest number of tokens, including special ones")
	learn.Flags().IntVar(&alphabet, "alphabet", 1000,
		"characters to keep, at most: the most frequent ones (Chinese wants some 6000)")
	learn.Flags().BoolVar(&cased, "cased", false, "keep case and accents")
	_ = learn.MarkFlagRequired("text")
	_ = learn.MarkFlagRequired("out")
	addFormat(learn, &format, "table")
	cmd.AddCommand(learn)
	return cmd
}

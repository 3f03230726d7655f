package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"harness.invalid/core/wordpiece"
)

func newTokenize() *cobra.Command {
	var vocab, format string
	var cased bool
	cmd := &cobra.Command{
		Use:   "tokenize --vocab FILE",
		Short: "Turn lines of text into ids",
		Long: `Tokenize reads lines from standard input and prints the ids of each line's WordPiece tokens, without
special tokens: on a line with spaces between them, or as a JSON array a line (--format json).`,
		Example: `  echo "BERT trains." | harness tokenize --vocab bert-base-uncased-vocab.txt`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			t, err := openTokenizer(vocab, !cased)
			if err != nil {
				return err
			}
			return tokenize(t, cmd.InOrStdin(), cmd.OutOrStdout(), format == "json")
		},
	}
	vocabFlags(cmd, &vocab, &cased)
	addFormat(cmd, &format, "table")
	return cmd
}

// vocabFlags are the flags of all commands that tokenize.
func vocabFlags(cmd *cobra.Command, vocab *string, cased *bool) {
	cmd.Flags().StringVar(vocab, "vocab", "", "vocabulary: one token a line")
	cmd.Flags().BoolVar(cased, "cased", false, "keep case and accents")
	_ = cmd.MarkFlagRequired("vocab")
}

func openTokenizer(vocab string, lower bool) (*wordpiece.Tokenizer, error) {
	v, err := wordpiece.Load(vocab)
	if err != nil {
		return nil, err
	}
	return wordpiece.New(v, wordpiece.Google(lower))
}

func tokenize(t *wordpiece.Tokenizer, in io.Reader, out io.Writer, asJSON bool) error {
	r, w := bufio.NewReaderSize(in, 1<<16), bufio.NewWriterSize(out, 1<<16)
	var ids []int32
	var buf []byte
	for {
		line, err := r.ReadString('\n')
		if line == "" && errors.Is(err, io.EOF) {
			return w.Flush()
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("standard input: %w", err)
		}
		ids = t.AppendIDs(ids[:0], strings.TrimSuffix(line, "\n"))
		buf = buf[:0]
		if asJSON {
			buf = append(buf, '[')
		}
		for i, id := range ids {
			switch {
			case i > 0 && asJSON:
				buf = append(buf, ',')
			case i > 0:
				buf = append(buf, ' ')
			}
			buf = strconv.AppendInt(buf, int64(id), 10)
		}
		if asJSON {
			buf = append(buf, ']')
		}
		if _, err := w.Write(append(buf, '\n')); err != nil {
			return err
		}
	}
}

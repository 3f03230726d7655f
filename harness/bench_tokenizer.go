package main

import (
	"github.com/spf13/cobra"

	"harness.invalid/core/bounded"
	"harness.invalid/harness/bench"
)

func newBenchTokenizer() *cobra.Command {
	var o benchmarking
	var text, vocab string
	cmd := &cobra.Command{
		Use:   "tokenizer",
		Short: "Measure WordPiece on one thread",
		Example: `  harness bench tokenizer
  harness bench tokenizer --text wiki_en.txt --vocab bert-base-uncased-vocab.txt`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if text == "" {
				t, lines, err := bench.Text()
				if err != nil {
					return err
				}
				return o.measure(cmd, []bench.Benchmark{bench.Tokenizer(t, lines)})
			}
			t, err := openTokenizer(vocab, true)
			if err != nil {
				return err
			}
			lines, err := bounded.ReadFile(text, bounded.GiB)
			if err != nil {
				return err
			}
			return o.measure(cmd, []bench.Benchmark{bench.Tokenizer(t, string(lines))})
		},
	}
	cmd.Flags().StringVar(&text, "text", "", "text to tokenize (default: generated)")
	cmd.Flags().StringVar(&vocab, "vocab", "", "vocabulary (default: learned from the generated text)")
	cmd.MarkFlagsRequiredTogether("text", "vocab")
	o.flags(cmd, "count", 0)
	return cmd
}

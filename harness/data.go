package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"harness.invalid/core/dataset/pretraining"
)

func newData() *cobra.Command {
	cmd := &cobra.Command{Use: "data", Short: "Download, prepare and check training data"}
	cmd.AddCommand(newDataFetch(), newDataWikipedia(), newDataPrepare(), newDataVerify(), newDataPretraining())
	return cmd
}

func newDataPretraining() *cobra.Command {
	var text, vocab, generator string
	var cased bool
	var g pretraining.GenerationSettings
	cmd := &cobra.Command{
		Use:   "pretraining --text FILE --vocab FILE",
		Short: "Print masked LM and next sentence instances as JSON",
		Long: `Pretraining prints, as JSON, the instances that google-research/bert's create_pretraining_data.py makes of a
text with the same settings and seed, to the last random number.`,
		Example: `  harness data pretraining --text sample_text.txt --vocab vocab.txt --seed 12345 --dupe-factor 5 \
      --max-seq-length 128 --max-predictions 20 --generator google`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if generator != "google" {
				return fmt.Errorf("--generator is %q, want google", generator)
			}
			t, err := openTokenizer(vocab, !cased)
			if err != nil {
				return err
			}
			g.Text, g.Vocab = filepath.Base(text), filepath.Base(vocab)
			made, err := pretraining.GenerateFile(text, t, g)
			if err != nil {
				return err
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(made)
		},
	}
	f := cmd.Flags()
	f.StringVar(&text, "text", "", "text: one sentence a line, a blank line between documents")
	vocabFlags(cmd, &vocab, &cased)
	f.Int64Var(&g.RandomSeed, "seed", 12345, "random_seed")
	f.IntVar(&g.DupeFactor, "dupe-factor", 10, "dupe_factor: times that the text is used, with other masks each time")
	f.IntVar(&g.MaxSeqLength, "max-seq-length", 128, "max_seq_length")
	f.IntVar(&g.MaxPredictions, "max-predictions", 20, "max_predictions_per_seq")
	f.Float64Var(&g.ShortSeqProb, "short-seq-prob", 0.1, "short_seq_prob")
	f.Float64Var(&g.MaskedLMProb, "masked-lm-prob", 0.15, "masked_lm_prob")
	f.BoolVar(&g.WholeWord, "whole-word", false, "do_whole_word_mask")
	f.StringVar(&generator, "generator", "google", "published program to reproduce")
	_ = cmd.MarkFlagRequired("text")
	return cmd
}

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"harness.invalid/core/dataset/pretraining"
	"harness.invalid/harness/hint"
)

func newDataPrepare() *cobra.Command {
	var text []string
	var vocab, out, format string
	var cased, quiet bool
	var p pretraining.Preparation
	cmd := &cobra.Command{
		Use:   "prepare --text FILE --vocab FILE --length N --out FOLDER",
		Short: "Turn text into sequences of tokens once, for all runs",
		Long: `Prepare cuts text into pairs of segments as google-research/bert does, on all CPUs, and writes them into a
folder of shards: shuffled, indexed, and with sums, so that damage is found. Neither the text nor the result need fit
into memory. To continue a preparation that was stopped, give the same command: the result has the same bytes, for any
number of workers.

Masks are not drawn here but when the data is dealt: one folder serves static and dynamic masks. A recipe takes a
folder for each length of its phases, by --data prepared=FOLDER or with data.kind prepared.`,
		Example: `  harness data prepare --text wiki.txt --vocab vocab.txt --length 128 --out wiki-128
  harness data prepare --text 'a.txt.gz' --text b.txt.zst --vocab vocab.txt --length 512 --dupe-factor 10 --out both-512
  harness compare --backends ipu,gpu-ref --recipe large-phase1 --data prepared=wiki-128`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if format != "text" && format != "json" {
				return fmt.Errorf("--format is %q, want text or json", format)
			}
			t, err := openTokenizer(vocab, !cased)
			if err != nil {
				return err
			}
			p.Lowercase = !cased
			start := time.Now()
			show := newProgress(cmd.ErrOrStderr(), quiet)
			defer show.close()
			read, done := show.task("read")
			defer func() { done() }()
			files, err := pretraining.Files(text)
			if err != nil {
				return err
			}
			corpus, err := pretraining.Open(files, read)
			if err != nil {
				return err
			}
			defer corpus.Close()
			stages := map[string]func(done, total int64){}
			p.Progress = func(stage string, now, total int64) {
				if stages[stage] == nil {
					done()
					stages[stage], done = show.task(stage)
				}
				stages[stage](now, total)
			}
			m, err := pretraining.Prepare(cmd.Context(), out, corpus, t, p)
			if err != nil && cmd.Context().Err() != nil {
				return hint.With(err, "continue with the same command")
			}
			if err != nil {
				return err
			}
			if format == "json" {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(m)
			}
			took := "there before"
			if len(stages) > 0 {
				seconds := time.Since(start).Seconds()
				took = fmt.Sprintf("%.1f s, %.1f MB of text/s", seconds, float64(corpus.Bytes())/1e6/seconds)
			}
			return tellPrepared(cmd.OutOrStdout(), out, m, took)
		},
	}
	preparationFlags(cmd.Flags(), &p)
	vocabFlags(cmd, &vocab, &cased)
	f := cmd.Flags()
	f.StringArrayVar(&text, "text", nil,
		"text: one sentence a line, a blank line between documents; as it is, gzip, zstd or bzip2 (repeatable)")
	f.StringVar(&out, "out", "", "folder to write")
	f.BoolVar(&quiet, "quiet", false, "no progress")
	f.StringVar(&format, "format", "text", "text, or json for the manifest")
	_ = cmd.MarkFlagRequired("text")
	_ = cmd.MarkFlagRequired("out")
	return cmd
}

func preparationFlags(f *pflag.FlagSet, p *pretraining.Preparation) {
	f.IntVar(&p.Length, "length", 128, "tokens of a sequence at most (max_seq_length)")
	f.IntVar(&p.DupeFactor, "dupe-factor", 5, "times that the text is used, with other segments each time (dupe_factor)")
	f.Float64Var(&p.ShortProb, "short-seq-prob", 0.1, "share of documents whose sequences are shorter (short_seq_prob)")
	f.Float64Var(&p.HeldOut, "held-out", 0.01, "share of documents that is kept for evaluation")
	f.Uint64Var(&p.Seed, "seed", 1, "seed of everything random")
	f.IntVar(&p.Shards, "shards", 0, "number of shards (default: as many as make 64 MiB each)")
	f.IntVar(&p.Workers, "workers", 0, "documents that are tokenized at a time (default: one for each CPU)")
}

func tellPrepared(w io.Writer, folder string, m *pretraining.Manifest, took string) error {
	_, err := fmt.Fprintf(w, "%s: %d documents and %d held out, %d sequences of up to %d, %d tokens, %d shards; %s\n",
		folder, m.Documents, m.HeldOutDocuments, m.Sequences(), m.Length, m.Tokens(), len(m.Shards), took)
	return err
}

package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"harness.invalid/core/dataset/wikipedia"
	"harness.invalid/harness/hint"
)

func newDataWikipedia() *cobra.Command {
	var s wikipedia.Settings
	var out, format string
	var quiet bool
	var megabytes int
	cmd := &cobra.Command{
		Use:   "wikipedia DUMP --out FOLDER",
		Short: "Turn a dump of Wikipedia into text",
		Long: `Wikipedia extracts the running text of the articles of a dump (XML, compressed with bzip2 or not, as data fetch
wikipedia loads it): one sentence a line, a blank line after each article, without headings, lists, tables, notes and
templates. It writes shards of text, and extraction.json with counts. --text and --data text= take the folder.

To continue an extraction that was stopped, give the same command: it goes on after the last shard.`,
		Example: `  harness data wikipedia simplewiki-latest-pages-articles.xml.bz2 --out simple
  harness vocab train --text simple --size 30522 --out vocab.txt
  harness data prepare --text simple --vocab vocab.txt --length 128 --out simple-128`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s.ShardBytes = int64(megabytes) << 20
			start := time.Now()
			show := newProgress(cmd.ErrOrStderr(), quiet)
			defer show.close()
			read, done := show.task("read")
			r, err := wikipedia.Extract(cmd.Context(), args[0], out, s, read)
			done()
			if err != nil && cmd.Context().Err() != nil {
				return hint.With(err, "continue with the same command")
			}
			if err != nil {
				return err
			}
			if format == "json" {
				return writeJSON(cmd.OutOrStdout(), r)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %d articles, %d sentences, %.1f MB in %d files; of %d pages %d are no articles, "+
				"%d too short and %d copies; %.1f s\n", out, r.Articles, r.Sentences, float64(r.Bytes)/1e6, len(r.Shards), r.Pages, r.Others,
				r.Short, r.Duplicates, time.Since(start).Seconds())
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&out, "out", "", "folder to write")
	f.IntVar(&s.Least, "least-sentences", 2, "articles with fewer sentences are left out")
	f.IntVar(&megabytes, "shard", 64, "MiB of text after which another file begins")
	f.BoolVar(&quiet, "quiet", false, "no progress")
	addFormat(cmd, &format, "table")
	_ = cmd.MarkFlagRequired("out")
	return cmd
}

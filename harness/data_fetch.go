package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"harness.invalid/harness/fetch"
	"harness.invalid/harness/hint"
)

// fetched is a data set that is there.
type fetched struct {
	Set     string   `json:"set"`
	Folder  string   `json:"folder"`
	Licence string   `json:"licence"`
	Files   []string `json:"files"`
}

func newDataFetch() *cobra.Command {
	var out, mirror, language, format string
	var quiet bool
	names := fetch.Names()
	cmd := &cobra.Command{
		Use:   "fetch SET...",
		Short: "Download data sets: " + strings.Join(names, ", "),
		Long: `Fetch downloads data sets from their makers' addresses, each into a folder of its own, and prints the paths
of the files. It continues interrupted downloads and does not load again what is there. It checks every file against a
sum: a known one, the one that its makers publish, or, where they publish none, that of the first download (SHA256SUMS
in the folder). It prints the licences, which are those of the data sets, before it loads anything.

The folders are in --out, which defaults to $HARNESS_DATA or else to harness/data in your cache folder.`,
		Example: `  harness data fetch squad vocab
  harness data fetch wikipedia --language simple --out data
  harness data fetch glue --mirror https://mirror.example.org/bert`,
		Args:      cobra.MinimumNArgs(1),
		ValidArgs: names,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := fetch.CheckLanguage(language); err != nil {
				return fmt.Errorf("--language is %q, %w", language, err)
			}
			if err := fetch.CheckMirror(mirror); err != nil {
				return fmt.Errorf("--mirror is %q, %w", mirror, err)
			}
			var sets []fetch.Set
			for _, name := range args {
				s, err := fetch.Named(name, language)
				if err != nil {
					return err
				}
				sets = append(sets, s)
			}
			folder, err := fetch.Folder(out)
			if err != nil {
				return hint.With(err, "name a folder with --out")
			}
			show := newProgress(cmd.ErrOrStderr(), quiet)
			defer show.close()
			for _, s := range sets {
				fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s. Licence: %s. %s\n", s.Name, s.Doc, s.License, s.Home)
			}
			var all []fetched
			for _, s := range sets {
				progress, end := show.tasks()
				f := fetch.Fetcher{Mirror: mirror, Say: show.say, Progress: progress}
				paths, err := f.Fetch(cmd.Context(), &s, filepath.Join(folder, s.Name))
				end()
				if err != nil {
					return hint.With(fmt.Errorf("%s: %w", s.Name, err), "the same command continues with what is there")
				}
				if format != "json" {
					if err := printLines(cmd.OutOrStdout(), paths); err != nil {
						return err
					}
				}
				all = append(all, fetched{s.Name, filepath.Join(folder, s.Name), s.License, paths})
			}
			if format == "json" {
				return writeJSON(cmd.OutOrStdout(), all)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&out, "out", "", "folder for the data sets (default $HARNESS_DATA, or the user's cache)")
	f.StringVar(&mirror, "mirror", os.Getenv("HARNESS_DATA_MIRROR"),
		"address below which the files lie under their host and path (default $HARNESS_DATA_MIRROR)")
	f.StringVar(&language, "language", "en", "Wikipedia to load: en, simple, zh ...")
	f.BoolVar(&quiet, "quiet", false, "no progress")
	addFormat(cmd, &format, "table")
	return cmd
}

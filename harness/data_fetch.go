package main

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"harness.invalid/core/spelling"
	"harness.invalid/harness/fetch"
)

func newDataFetch() *cobra.Command {
	var out, mirror, language string
	var quiet bool
	var names []string
	for _, s := range fetch.Sets("en") {
		names = append(names, s.Name)
	}
	cmd := &cobra.Command{
		Use:   "fetch SET...",
		Short: "Download data sets: " + strings.Join(names, ", "),
		Long: `Fetch downloads data sets from their makers' addresses into a folder of its own for each, and prints the paths of the files. A download that was cut
short goes on where it was; what is there already is not loaded again. Every file is held against its sum: the one that is known here, the one
that its makers publish, or, where they publish none, that of the first download (SHA256SUMS in the folder). Licences are those of the data
sets, and are printed before anything is loaded.

The folders are in --out, which is $HARNESS_DATA or else harness/data in the user's folder for caches.`,
		Example: `  harness data fetch squad vocab
  harness data fetch wikipedia --language simple --out data
  harness data fetch glue --mirror https://mirror.example.org/bert`,
		Args:      cobra.MinimumNArgs(1),
		ValidArgs: names,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !regexp.MustCompile(`^[a-z][a-z-]{1,15}$`).MatchString(language) {
				return fmt.Errorf("--language is %q, want the name of a Wikipedia such as en, simple or zh", language)
			}
			if u, err := url.Parse(mirror); mirror != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
				return fmt.Errorf("--mirror is %q, want an address such as https://mirror.example.org/data", mirror)
			}
			var sets []fetch.Set
			for _, name := range args {
				found := false
				for _, s := range fetch.Sets(language) {
					if s.Name == name {
						sets, found = append(sets, s), true
					}
				}
				if !found {
					return fmt.Errorf("no data set is named %q%s (known: %s)", name, spelling.Hint(name, names), strings.Join(names, ", "))
				}
			}
			folder, err := dataFolder(out)
			if err != nil {
				return err
			}
			show := newProgress(cmd.ErrOrStderr(), quiet)
			defer show.close()
			for _, s := range sets {
				fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s. Licence: %s. %s\n", s.Name, s.Doc, s.License, s.Home)
			}
			for _, s := range sets {
				observers := map[string]func(done, total int64){}
				var ends []func()
				f := fetch.Fetcher{Mirror: mirror, Say: show.say, Progress: func(name string, done, total int64) {
					if observers[name] == nil {
						observe, end := show.task(name)
						observers[name], ends = observe, append(ends, end)
					}
					if total > 0 {
						observers[name](done, total)
					}
				}}
				paths, err := f.Fetch(cmd.Context(), &s, filepath.Join(folder, s.Name))
				for _, end := range ends {
					end()
				}
				if err != nil {
					return withHint(fmt.Errorf("%s: %w", s.Name, err), "the same command goes on with what is there")
				}
				for _, p := range paths {
					fmt.Fprintln(cmd.OutOrStdout(), p)
				}
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&out, "out", "", "folder for the data sets (default $HARNESS_DATA, or the user's cache)")
	f.StringVar(&mirror, "mirror", os.Getenv("HARNESS_DATA_MIRROR"), "address below which the files lie under their host and path (default $HARNESS_DATA_MIRROR)")
	f.StringVar(&language, "language", "en", "Wikipedia to load: en, simple, zh ...")
	f.BoolVar(&quiet, "quiet", false, "no progress")
	return cmd
}

// dataFolder is where data sets are kept.
func dataFolder(out string) (string, error) {
	if out != "" {
		return out, nil
	}
	if dir := os.Getenv("HARNESS_DATA"); dir != "" {
		return dir, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", withHint(err, "name a folder by --out")
	}
	return filepath.Join(cache, "harness", "data"), nil
}

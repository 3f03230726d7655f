package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"harness.invalid/core/kernels"
)

// build is which program this is: what its results depend on besides its inputs.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Modified bool   `json:"modified"` // the sources were changed after the commit
	Go       string `json:"go"`
	Kernels  string `json:"kernels"` // see kernels.Path
	Platform string `json:"platform"`
}

// thisBuild reads what the compiler stamped into the program.
func thisBuild() build {
	b := build{
		Version: "unknown", Commit: "unknown", Go: runtime.Version(),
		Kernels: kernels.Path(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	b.Version = cmp.Or(info.Main.Version, b.Version)
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

func (b build) String() string {
	commit := b.Commit
	if b.Modified {
		commit += ", modified"
	}
	return fmt.Sprintf("harness   %s\ncommit    %s\ngo        %s\nkernels   %s\nplatform  %s\n",
		b.Version, commit, strings.TrimPrefix(b.Go, "go"), b.Kernels, b.Platform)
}

// addVersion adds the command version and the flag --version.
func addVersion(root *cobra.Command) {
	var format string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print version, commit, Go version, kernels and platform",
		Long: `Version prints which program this is: its version and commit, the Go version that built it, the kernels that compute on
this machine, and the platform. Runs on equal kernels agree bit for bit.`,
		Example: "  harness version --format json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := tableOrJSON(format); err != nil {
				return err
			}
			if format == "json" {
				return writeJSON(cmd.OutOrStdout(), thisBuild())
			}
			_, err := fmt.Fprint(cmd.OutOrStdout(), thisBuild())
			return err
		},
	}
	cmd.Flags().StringVar(&format, "format", "table", "table or json")
	root.AddCommand(cmd)
	b := thisBuild()
	root.Version = b.Version
	root.SetVersionTemplate(b.String())
	root.InitDefaultVersionFlag()
	root.Flags().Lookup("version").Usage = "print which program this is, as the command version does"
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"harness.invalid/harness/page"
	"harness.invalid/results/index"
)

func newServe() *cobra.Command {
	var store, address string
	cmd := &cobra.Command{
		Use:   "serve [FOLDER]",
		Short: "Show runs in a browser and follow those that go on",
		Long: `Serve shows the pages of report over all runs of the index, wherever their folders are, or over those in and below a folder, and keeps them up to date
while runs go on. It reads them and changes nothing. By default it answers this machine alone. Ctrl-C ends it.`,
		Example: `  harness serve
  harness serve runs/mine
  harness serve --store postgres://ci@db.example/runs --address localhost:9000`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				if store != "" {
					return errors.New("a folder and --store are two answers to which runs are shown: give one")
				}
				if info, err := os.Stat(args[0]); err != nil || !info.IsDir() {
					return withHint(fmt.Errorf("%s is not a folder", args[0]), "name the folder of --out: harness serve runs/mine")
				}
				return serve(cmd, page.InFolder(args[0]), address)
			}
			location := index.Locate(store)
			if !index.IsPostgres(location) {
				// Without a file, one would be made from the runs beside it.
				if info, err := os.Stat(filepath.Dir(location)); err != nil || !info.IsDir() {
					return withHint(fmt.Errorf("there is no index %s yet", location), "harness serve FOLDER shows the runs of a folder")
				}
			}
			return index.Use(cmd.Context(), store, func(x *index.Index) error { return serve(cmd, inIndex(x), address) })
		},
	}
	storeFlag(cmd.Flags(), &store)
	cmd.Flags().StringVar(&address, "address", "localhost:8080", "HOST:PORT to listen on; port 0 takes any that is free")
	return cmd
}

// inIndex are the runs of an index whose folders are here.
func inIndex(x *index.Index) page.Source {
	return page.Source{Name: "index " + x.Location(), Folders: func(ctx context.Context) (dirs, notes []string, err error) {
		known, elsewhere, err := x.Folders(ctx)
		if err != nil {
			return nil, nil, err
		}
		gone := 0
		for _, dir := range known {
			if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
				gone++
			} else {
				dirs = append(dirs, dir)
			}
		}
		if gone > 0 {
			notes = append(notes, fmt.Sprintf("Of the index %s not shown, since the folders are gone: harness runs reindex forgets them.", runsAre(gone)))
		}
		for _, host := range slices.Sorted(maps.Keys(elsewhere)) {
			notes = append(notes, fmt.Sprintf("Of the index %s on %s: harness serve shows them there.", runsAre(elsewhere[host]), host))
		}
		return dirs, notes, nil
	}}
}

func runsAre(n int) string {
	if n == 1 {
		return "1 run is"
	}
	return fmt.Sprintf("%d runs are", n)
}

func serve(cmd *cobra.Command, source page.Source, address string) error {
	ctx := cmd.Context()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return withHint(err, "another port: --address localhost:0 takes one that is free")
	}
	server := &http.Server{
		Handler: page.NewServer(source), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		BaseContext: func(net.Listener) context.Context { return ctx }, // readers who wait for news are let go at the end
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "serving the runs in %s at http://%s; Ctrl-C ends\n", source.Name, listener.Addr())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		return err
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

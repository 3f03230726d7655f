package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"harness.invalid/harness/page"
)

func newServe() *cobra.Command {
	var address string
	cmd := &cobra.Command{
		Use:   "serve [FOLDER]",
		Short: "Show the runs of a folder in a browser and follow those that go on",
		Long: `Serve shows the pages of report over all runs in and below a folder (default runs) and keeps them up to date while runs go on. It reads the folder
and changes nothing. By default it answers this machine alone. Ctrl-C ends it.`,
		Example: `  harness serve runs
  harness serve runs --address localhost:9000`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			folder := "runs"
			if len(args) > 0 {
				folder = args[0]
			}
			if info, err := os.Stat(folder); err != nil || !info.IsDir() {
				return withHint(fmt.Errorf("%s is not a folder", folder), "name the folder of --out: harness serve runs/mine")
			}
			return serve(cmd, folder, address)
		},
	}
	cmd.Flags().StringVar(&address, "address", "localhost:8080", "HOST:PORT to listen on; port 0 takes any that is free")
	return cmd
}

func serve(cmd *cobra.Command, folder, address string) error {
	ctx := cmd.Context()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return withHint(err, "another port: --address localhost:0 takes one that is free")
	}
	server := &http.Server{
		Handler: page.NewServer(folder), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		BaseContext: func(net.Listener) context.Context { return ctx }, // readers who wait for news are let go at the end
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "serving the runs in %s at http://%s; Ctrl-C ends\n", folder, listener.Addr())
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

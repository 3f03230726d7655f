package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"harness.invalid/harness/hint"
	"harness.invalid/harness/page"
	"harness.invalid/results/index"
)

func newServe() *cobra.Command {
	var store, address string
	var model asker
	var queue int
	cmd := &cobra.Command{
		Use:   "serve [FOLDER | --model DIR]",
		Short: "Show runs in a browser, and follow runs in progress",
		Long: `Serve shows the pages of report for all runs of the index, wherever their folders are, or for those in and
below a folder, and keeps them up to date while runs go on. It only reads. By default only this machine can reach it.
Ctrl-C ends it.

With --model it answers questions about passages instead, with a fine-tuned model and for programs on this machine alone: POST /ask
takes {"question","passage"} and gives {"answer","probability"}. Up to --batch that wait are answered together; when --queue wait
already, a request is refused.`,
		Example: `  harness serve
  harness serve runs/mine
  harness serve --model runs/mine/gpu-ref-adamw-seed1/model --address localhost:9000
  harness serve --store postgres://ci@db.example/runs --address localhost:9000`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if model.tuned.Model != "" {
				if len(args) > 0 || store != "" {
					return errors.New("--model serves a model, and a folder or --store runs: give one")
				}
				return serveModel(cmd, &model, queue, address)
			}
			if len(args) > 0 {
				if store != "" {
					return errors.New("a folder and --store are two answers to which runs are shown: give one")
				}
				if info, err := os.Stat(args[0]); err != nil || !info.IsDir() {
					return hint.With(fmt.Errorf("%s is not a folder", args[0]), "name the folder of --out: harness serve runs/mine")
				}
				return serve(cmd, page.InFolder(args[0]), address)
			}
			location := index.Locate(store)
			if !index.IsPostgres(location) {
				// Without a file, one would be made from the runs beside it.
				if info, err := os.Stat(filepath.Dir(location)); err != nil || !info.IsDir() {
					return hint.With(fmt.Errorf("there is no index %s yet", location), "harness serve FOLDER shows the runs of a folder")
				}
			}
			return index.Use(cmd.Context(), store, func(x *index.Index) error { return serve(cmd, page.InIndex(x), address) })
		},
	}
	storeFlag(cmd.Flags(), &store)
	cmd.Flags().StringVar(&model.tuned.Model, "model", "", "folder of a fine-tuned model, whose answers to serve")
	cmd.Flags().StringVar(&model.tuned.Task, "task", "", "--model: task (default: the one that it was fine-tuned on)")
	cmd.Flags().StringVar(&model.backend, "backend", "gpu-ref", "--model: backend")
	cmd.Flags().IntVar(&model.batch, "batch", 8, "--model: most questions that are answered at once")
	cmd.Flags().IntVar(&queue, "queue", 64, "--model: most questions that wait")
	cmd.Flags().StringVar(&address, "address", "localhost:8080", "HOST:PORT to listen on; port 0 takes any that is free")
	return cmd
}

func serve(cmd *cobra.Command, source page.Source, address string) error {
	listener, err := (&net.ListenConfig{}).Listen(cmd.Context(), "tcp", address)
	if err != nil {
		return hint.With(fmt.Errorf("--address: %w", err), "--address localhost:0 takes a port that is free")
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "serving the runs in %s at http://%s; Ctrl-C ends\n", source.Name, listener.Addr())
	return page.Serve(cmd.Context(), source, listener)
}

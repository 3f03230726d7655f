package main

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/spf13/cobra"

	"harness.invalid/harness/asking"
	"harness.invalid/harness/evaluation"
)

// serveModel serves a model's answers over HTTP, for serve.
func serveModel(cmd *cobra.Command, a *asker, queue int, address string) (err error) {
	if queue < 1 || queue > 1<<16 || a.batch < 1 || a.batch > 4096 {
		return fmt.Errorf("queue is %d and batch %d, want 1 to %d and 1 to 4096", queue, a.batch, 1<<16)
	}
	if err := asking.CheckAddress(address); err != nil {
		return err
	}
	s, err := a.open(cmd)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if _, err := s.Ask(cmd.Context(), []evaluation.Question{{Passage: "warm up", Question: "warm up"}}); err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(cmd.Context(), "tcp", address)
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "answering at http://%s/ask; Ctrl-C ends\n", listener.Addr())
	return asking.NewServer(askFunc(s.Ask), a.batch, queue).Serve(cmd.Context(), listener)
}

// askFunc is an asking.Asker.
type askFunc func(context.Context, []evaluation.Question) ([]evaluation.Answer, error)

func (f askFunc) Ask(ctx context.Context, q []evaluation.Question) ([]evaluation.Answer, error) {
	return f(ctx, q)
}

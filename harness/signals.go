package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// stoppedBy is why the program stops in order: training saves a checkpoint after the step under way.
type stoppedBy struct{ os.Signal }

func (s stoppedBy) Error() string { return "signal: " + s.String() }

// Unwrap makes it a cancelled context.
func (s stoppedBy) Unwrap() error { return context.Canceled }

// untilStopped returns a context that ends at the first signal that asks the program to stop. A second interrupt or
// SIGTERM kills; others do not, since they come in numbers: when a terminal is closed, both the system and the shell send
// SIGHUP.
func untilStopped(parent context.Context) (ctx context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 8)
	for _, s := range stopSignals {
		if !signal.Ignored(s) { // as nohup ignores SIGHUP
			signal.Notify(signals, s)
		}
	}
	done := make(chan struct{})
	go func() {
		for {
			select {
			case s := <-signals:
				if s == syscall.SIGPIPE && !outputClosed() {
					continue // a plugin's connection
				}
				if s == os.Interrupt || s == syscall.SIGTERM {
					signal.Reset(os.Interrupt, syscall.SIGTERM)
				}
				cancel(stoppedBy{s})
			case <-done:
				return
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		cancel(nil)
	}
}

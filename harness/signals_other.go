//go:build !unix || portable

package main

import (
	"context"
	"os"
	"syscall"
)

// stopSignals ask the program to stop.
var stopSignals = []os.Signal{os.Interrupt, syscall.SIGTERM}

func timeIsUp(context.Context) bool { return false }

func outputClosed() bool { return false }

//go:build !unix

package main

import (
	"os"
	"syscall"
)

// stopSignals ask the program to stop.
var stopSignals = []os.Signal{os.Interrupt, syscall.SIGTERM}

func outputClosed() bool { return false }

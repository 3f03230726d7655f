//go:build !amd64 || noasm

package kernels

// levels returns what this build and processor can run, the slowest first.
func levels() []*table { return []*table{&generic} }

// pause waits for a moment.
func pause() {}

//go:build !amd64 || noasm

package kernels

// levels returns the implementations that this build and processor can run, the slowest first.
func levels() []*table { return []*table{&generic} }

// vendor names the processor's maker where results depend on it.
func vendor(string) string { return "" }

// firstLevel is not known here.
func firstLevel() cache { return cache{} }

// pause waits for a moment.
func pause() {}

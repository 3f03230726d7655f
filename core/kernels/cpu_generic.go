package kernels

// levels returns what this build and processor can run, the slowest first.
func levels() []*table { return []*table{&generic} }

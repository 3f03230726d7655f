package profile

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"harness.invalid/core/durable"
)

// Files are the paths of what a profile consists of.
type Files struct {
	Trace, Memory, Pipeline string
}

// WriteFiles writes the trace of a step to a file and both pictures beside it, with the endings .svg and -pipeline.svg.
func (s *Step) WriteFiles(trace string) (Files, error) {
	stem := strings.TrimSuffix(trace, filepath.Ext(trace))
	f := Files{Trace: trace, Memory: stem + ".svg", Pipeline: stem + "-pipeline.svg"}
	if f.Memory == trace {
		return f, fmt.Errorf("--out is %s, want a name for the trace, such as %s.json", trace, stem)
	}
	if err := os.MkdirAll(filepath.Dir(trace), 0o777); err != nil {
		return f, err
	}
	for _, w := range []struct {
		path  string
		write func(io.Writer) error
	}{{f.Trace, s.Trace}, {f.Memory, s.Memory}, {f.Pipeline, s.Pipeline}} {
		if err := durable.WriteFile(w.path, w.write); err != nil {
			return f, err
		}
	}
	return f, nil
}

// Package bench measures how fast the parts of a run are on this machine: whole training steps through real
// plugins, the kernels that they use, the optimizers, the tokenizer. Each figure comes with the hardware's own
// limit for that kind of work, measured alternately with it, and with the share of the limit that it reaches:
// machines are shared and change their clocks, so a figure without a limit from the same minute says little.
//
// The benchmarks are those of package testing. The command `harness bench` runs them through Measure, and
// `go test -bench . ./harness/bench` runs the same ones; benchstat reads the output of both.
package bench

import (
	"flag"
	"fmt"
	"sync"
	"testing"
)

// Benchmark is one thing to measure.
type Benchmark struct {
	Name string
	run  func(b *testing.B) (Figure, error)
}

// Run runs the benchmark under package testing.
func (m *Benchmark) Run(b *testing.B) {
	f, err := m.run(b)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(f.Time.Median*1e6, "ns/op")
	for _, x := range f.metrics() {
		b.ReportMetric(x.value, x.unit)
	}
}

// Measure runs the benchmark count times, or for about a second if count is 0.
func (m *Benchmark) Measure(count int) (f Figure, err error) {
	length := "1s"
	if count > 0 {
		length = fmt.Sprintf("%dx", count)
	}
	registerFlags.Do(testing.Init)
	if err := flag.Set("test.benchtime", length); err != nil {
		return Figure{}, err
	}
	testing.Benchmark(func(b *testing.B) { f, err = m.run(b) })
	f.Name = m.Name
	return f, err
}

var registerFlags sync.Once // of package testing

package main

import (
	"fmt"
	"io"
	"time"

	"harness.invalid/harness/train"
)

// lineScreen shows progress as lines, for what is no terminal.
type lineScreen struct{ out io.Writer }

// lineEvery is the time between two lines about one thing.
const lineEvery = 10 * time.Second

func (l lineScreen) line(text string) { fmt.Fprintln(l.out, text) }

func (l lineScreen) run(name string) display {
	last := time.Now()
	return display{func(e train.Event) {
		if e.Metrics == nil && e.Doubt == "" && time.Since(last) < lineEvery {
			return
		}
		last = time.Now()
		l.line(fmt.Sprintf("%s: %s", name, e))
	}, func() {}}
}

func (l lineScreen) task(name string) (observe func(done, total int64), end func()) {
	start := time.Now()
	last := start
	return func(done, total int64) {
		if time.Since(last) < lineEvery || done <= 0 {
			return
		}
		last = time.Now()
		left := time.Duration(float64(time.Since(start)) * (float64(total)/float64(done) - 1))
		l.line(fmt.Sprintf("%s: %d%%  %v left", name, 100*done/max(total, 1), left.Round(time.Second)))
	}, func() {}
}

func (lineScreen) wait() {}

// noScreen shows nothing.
type noScreen struct{}

func (noScreen) line(string) {}

func (noScreen) run(string) display { return display{func(train.Event) {}, func() {}} }

func (noScreen) task(string) (observe func(done, total int64), end func()) {
	return func(int64, int64) {}, func() {}
}

func (noScreen) wait() {}

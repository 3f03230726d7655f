package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"

	"harness.invalid/core/recipe"
	"harness.invalid/core/visible"
	"harness.invalid/harness/experiment"
	"harness.invalid/harness/train"
)

// progress shows how far runs are: a bar for each on a terminal, lines now and then elsewhere, nothing when quiet.
type progress struct {
	out  io.Writer
	bars *mpb.Progress // nil: lines
	off  bool

	mu     sync.Mutex // of runs
	runs   map[string]display
	locked func(done, total int64) // shows the steps of lockstep; nil before the first
	unlock func()
}

// lineEvery is the time between two lines of a run.
const lineEvery = 10 * time.Second

func newProgress(out io.Writer, quiet bool) *progress {
	p := &progress{out: out, off: quiet, runs: map[string]display{}}
	if f := terminalOf(out); f != nil && !quiet {
		p.bars = mpb.New(mpb.WithOutput(f), mpb.WithWidth(24), mpb.WithAutoRefresh()) // bars move the cursor
	}
	return p
}

// say prints a line about the progress.
func (p *progress) say(format string, args ...any) {
	switch {
	case p.off:
	case p.bars != nil:
		fmt.Fprint(p.bars, visible.Text(fmt.Sprintf(format+"\n", args...)))
	default:
		fmt.Fprintf(p.out, format+"\n", args...)
	}
}

// observe shows what an experiment tells.
func (p *progress) observe(e experiment.Event) {
	switch e := e.(type) {
	case experiment.Note:
		p.say("%s", e.Text)
	case experiment.RunStarted:
		shown, done := p.run(e.Run)
		p.mu.Lock()
		p.runs[e.Run] = display{shown, done}
		p.mu.Unlock()
	case experiment.RunAdvanced:
		p.display(e.Run).advanced(e.Event)
	case experiment.RunEnded:
		p.display(e.Run).done()
	case experiment.PairCompared:
		p.say("%s", closing(e))
	case experiment.StepLocked:
		if p.locked == nil {
			p.locked, p.unlock = p.task("lockstep")
		}
		p.locked(int64(e.Step), int64(e.Steps))
	}
}

func (p *progress) display(run string) display {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.runs[run]
}

// display is what is shown of one run.
type display struct {
	advanced train.Observer
	done     func()
}

// close waits until the bars are drawn for the last time.
func (p *progress) close() {
	if p.unlock != nil {
		p.unlock()
	}
	if p.bars != nil {
		p.bars.Wait()
	}
}

// run shows one run. done ends its display, whether or not the run came to its end.
func (p *progress) run(name string) (observe train.Observer, done func()) {
	switch {
	case p.off:
		return func(train.Event) {}, func() {}
	case p.bars != nil:
		return p.runBar(name)
	}
	last := time.Now()
	return func(e train.Event) {
		if e.Doubt != "" {
			p.doubt(name, e)
			return
		}
		if e.Metrics == nil && time.Since(last) < lineEvery {
			return
		}
		last = time.Now()
		fmt.Fprintf(p.out, "%s: %s\n", name, describe(e))
	}, func() {}
}

func (p *progress) doubt(name string, e train.Event) {
	p.say("%s: phase %s: %s", name, e.Phase, e.Doubt)
}

// tasks shows several tasks, each from the first time that its total is known. end ends the display of all.
func (p *progress) tasks() (observe func(name string, done, total int64), end func()) {
	observers := map[string]func(done, total int64){}
	var ends []func()
	return func(name string, done, total int64) {
			if total <= 0 {
				return
			}
			if observers[name] == nil {
				observe, end := p.task(name)
				observers[name], ends = observe, append(ends, end)
			}
			observers[name](done, total)
		}, func() {
			for _, end := range ends {
				end()
			}
		}
}

// task shows something other than a run: how much of it is done, and the time that is left when it takes more than
// a moment.
func (p *progress) task(name string) (observe func(done, total int64), end func()) {
	start := time.Now()
	switch {
	case p.off:
		return func(int64, int64) {}, func() {}
	case p.bars != nil:
		return p.taskBar(name)
	}
	last := start
	return func(done, total int64) {
		if time.Since(last) < lineEvery || done <= 0 {
			return
		}
		last = time.Now()
		spent := time.Since(start)
		left := time.Duration(float64(spent) * (float64(total)/float64(done) - 1))
		fmt.Fprintf(p.out, "%s: %d%%  %v left\n", name, 100*done/max(total, 1), left.Round(time.Second))
	}, func() {}
}

// describe is an event in words.
func describe(e train.Event) string {
	s := fmt.Sprintf("%s %d/%d", e.Phase, e.Step, e.Steps)
	if e.Metrics != nil {
		for _, m := range recipe.Metrics() {
			if v, ok := e.Metrics[m.Name]; ok {
				s += fmt.Sprintf("  %s %.4g", m.Name, v)
			}
		}
		return s
	}
	if !e.Counted {
		s += fmt.Sprintf("  loss %.3f", e.Loss)
	}
	if e.Skipped > 0 {
		s += fmt.Sprintf("  skipped %d", e.Skipped)
	}
	if e.Throughput > 0 {
		s += fmt.Sprintf("  %.0f sequences/s", e.Throughput)
	}
	if e.Left > 0 {
		s += "  " + e.Left.Round(time.Second).String() + " left"
	}
	return s
}

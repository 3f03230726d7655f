package main

import (
	"fmt"
	"io"
	"sync"

	"harness.invalid/harness/experiment"
	"harness.invalid/harness/train"
)

// progress shows how far runs and other tasks are.
type progress struct {
	screen
	mu     sync.Mutex // of runs
	runs   map[string]display
	locked func(done, total int64) // shows the steps of lockstep; nil before the first
	unlock func()
}

// screen is where progress is shown: bars on a terminal, lines now and then elsewhere, nothing when quiet.
type screen interface {
	// line shows a line about the progress.
	line(text string)
	run(name string) display
	// task shows something other than a run: how much of it is done, and the time that is left.
	task(name string) (observe func(done, total int64), end func())
	// wait returns when all is shown.
	wait()
}

// display is what is shown of one run.
type display struct {
	advanced train.Observer
	done     func() // ends the display, whether or not the run came to its end
}

func newProgress(out io.Writer, quiet bool) *progress {
	p := &progress{screen: lineScreen{out}, runs: map[string]display{}}
	if f := terminalOf(out); quiet {
		p.screen = noScreen{}
	} else if f != nil {
		p.screen = newBarScreen(f)
	}
	return p
}

func (p *progress) say(format string, args ...any) { p.line(fmt.Sprintf(format, args...)) }

// observe shows what an experiment tells.
func (p *progress) observe(e experiment.Event) {
	switch e := e.(type) {
	case experiment.Note:
		p.line(e.Text)
	case experiment.RunStarted:
		shown := p.run(e.Run)
		p.mu.Lock()
		p.runs[e.Run] = shown
		p.mu.Unlock()
	case experiment.RunAdvanced:
		p.display(e.Run).advanced(e.Event)
	case experiment.RunEnded:
		p.display(e.Run).done()
	case experiment.PairCompared:
		p.line(closing(e))
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

// close waits until all is shown.
func (p *progress) close() {
	if p.unlock != nil {
		p.unlock()
	}
	p.wait()
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

package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"

	"harness.invalid/core/recipe"
	"harness.invalid/harness/train"
)

// progress shows how far runs are: a bar for each on a terminal, lines now and then elsewhere, nothing when quiet.
type progress struct {
	out  io.Writer
	bars *mpb.Progress // nil: lines
	off  bool
}

// lineEvery is the time between two lines of a run.
const lineEvery = 10 * time.Second

func newProgress(out io.Writer, quiet bool) *progress {
	p := &progress{out: out, off: quiet}
	if f, ok := out.(*os.File); ok && !quiet && term.IsTerminal(int(f.Fd())) {
		p.bars = mpb.New(mpb.WithOutput(out), mpb.WithWidth(24), mpb.WithAutoRefresh())
	}
	return p
}

// say prints a line about what goes on.
func (p *progress) say(format string, args ...any) {
	switch {
	case p.off:
	case p.bars != nil:
		fmt.Fprintf(p.bars, format+"\n", args...)
	default:
		fmt.Fprintf(p.out, format+"\n", args...)
	}
}

// Write shows what a plugin prints: whole lines.
func (p *progress) Write(b []byte) (int, error) {
	p.say("%s", strings.TrimSuffix(string(b), "\n"))
	return len(b), nil
}

// close waits until the bars are drawn for the last time.
func (p *progress) close() {
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
		return p.bar(name)
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

// task shows something other than a run: how much of it is done, and the time that is left when it takes more than a moment.
func (p *progress) task(name string) (observe func(done, total int64), end func()) {
	start := time.Now()
	switch {
	case p.off:
		return func(int64, int64) {}, func() {}
	case p.bars != nil:
		bar := p.bars.AddBar(0, mpb.PrependDecorators(decor.Name(name, decor.WCSyncSpaceR)),
			mpb.AppendDecorators(decor.Percentage(decor.WC{W: 5}), decor.OnComplete(decor.AverageETA(decor.ET_STYLE_GO, decor.WC{W: 10}), "")))
		return func(done, total int64) {
				bar.SetCurrent(done)
				bar.SetTotal(total, done >= total)
			}, func() {
				if !bar.Completed() {
					bar.Abort(false)
				}
			}
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

// count shows how many sequences of an evaluation are done. finish ends the display.
func (p *progress) count(name string) (told func(done, all int), finish func()) {
	if p.off {
		return nil, func() {}
	}
	began := time.Now()
	event := func(done, all int) train.Event {
		left := time.Duration(float64(time.Since(began)) * float64(all-done) / float64(done))
		return train.Event{Phase: name, Step: done, Steps: all, Done: float64(done) / float64(all), Left: left, Counted: true}
	}
	observe, finish := p.run(name)
	return func(done, all int) { observe(event(done, all)) }, finish
}

// barSteps is the resolution of a bar.
const barSteps = 10000

func (p *progress) bar(name string) (train.Observer, func()) {
	var mu sync.Mutex
	text := "starting"
	bar := p.bars.AddBar(barSteps,
		mpb.PrependDecorators(decor.Name(name, decor.WCSyncSpaceR)),
		mpb.AppendDecorators(decor.Percentage(decor.WC{W: 5}), decor.Any(func(decor.Statistics) string {
			mu.Lock()
			defer mu.Unlock()
			return "  " + text
		})))
	return func(e train.Event) {
			if e.Doubt != "" {
				p.doubt(name, e)
				return
			}
			mu.Lock()
			text = describe(e)
			mu.Unlock()
			bar.SetCurrent(int64(e.Done * (barSteps - 1)))
		}, func() {
			if bar.Current() >= barSteps-1 {
				bar.SetCurrent(barSteps)
			} else {
				bar.Abort(false)
			}
		}
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

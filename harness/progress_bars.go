package main

import (
	"fmt"
	"io"
	"sync"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"harness.invalid/core/visible"
	"harness.invalid/harness/train"
)

// barScreen shows progress on a terminal, whose cursor it moves: a line for each run, a bar for each task.
type barScreen struct{ *mpb.Progress }

func newBarScreen(terminal io.Writer) barScreen {
	return barScreen{mpb.New(mpb.WithOutput(terminal), mpb.WithWidth(24), mpb.WithAutoRefresh())}
}

// barSteps is the resolution of a run's share.
const barSteps = 10000

func (b barScreen) line(text string) { fmt.Fprintln(b, visible.Text(text)) }

func (b barScreen) run(name string) display {
	var mu sync.Mutex
	text := "starting"
	bar := b.New(barSteps, mpb.NopStyle(), // 80 columns have no room for a bar beside step, loss, rate and time left
		mpb.PrependDecorators(decor.Name(name, decor.WCSyncSpaceR)),
		mpb.AppendDecorators(decor.Percentage(decor.WC{W: 5}), decor.Any(func(decor.Statistics) string {
			mu.Lock()
			defer mu.Unlock()
			return "  " + text
		})))
	return display{func(e train.Event) {
		if e.Doubt != "" {
			b.line(fmt.Sprintf("%s: %s", name, e))
			return
		}
		mu.Lock()
		text = e.String()
		mu.Unlock()
		bar.SetCurrent(int64(e.Done * (barSteps - 1)))
	}, func() {
		if bar.Current() >= barSteps-1 {
			bar.SetCurrent(barSteps)
		} else {
			bar.Abort(true) // the time that was left is of no use beside the error that says where it stopped
		}
	}}
}

func (b barScreen) task(name string) (observe func(done, total int64), end func()) {
	bar := b.AddBar(0, mpb.PrependDecorators(decor.Name(name, decor.WCSyncSpaceR)),
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

func (b barScreen) wait() { b.Wait() }

package main

import (
	"sync"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"harness.invalid/harness/train"
)

// barSteps is the resolution of a bar.
const barSteps = 10000

// runBar shows a run as a bar.
func (p *progress) runBar(name string) (train.Observer, func()) {
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

// taskBar shows something other than a run as a bar.
func (p *progress) taskBar(name string) (observe func(done, total int64), end func()) {
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

package extension

import (
	"context"
	"fmt"
	"sync"
	"time"

	"harness.invalid/harness/catalog"
	"harness.invalid/harness/hint"
)

// Listing is a plugin that was asked what it is.
type Listing struct {
	Description
	Like  []string `json:"like,omitempty"`  // it stands for plugins of these names
	Error string   `json:"error,omitempty"` // why it can't be used
}

// atOnce is how many plugins are asked at a time. Starting takes most of their time, and all of that is CPU time.
const atOnce = 4

// List asks plugins what they are, several at a time, and returns their answers in the same order. One that does not
// answer within timeout is listed with its error.
func List(ctx context.Context, plugins []catalog.Entry, timeout time.Duration) []Listing {
	rows := make([]Listing, len(plugins))
	var asked sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for i, e := range plugins {
		asked.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			rows[i] = askOne(ctx, e, timeout)
		})
	}
	asked.Wait()
	return rows
}

func askOne(ctx context.Context, e catalog.Entry, timeout time.Duration) Listing {
	row := Listing{Like: e.Family}
	var err error
	if e.Note != "" || e.Family != nil {
		row.Error = e.Note
		if row.Description, err = known(e); err != nil && row.Error == "" {
			row.Error = err.Error()
		}
		return row
	}
	// Patience bounds only the start, and nothing bounds the calls of an attached plugin.
	e.Patience = timeout
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer within %v", timeout))
	defer cancel()
	if row.Description, err = Describe(ctx, e, nil); err != nil {
		row.Error = err.Error()
		if advice := hint.Of(err); advice != "" {
			row.Error += "; " + advice
		}
	}
	return row
}

package train

import (
	"math"
	"testing"
	"time"

	"harness.invalid/core/recipe"
)

// TestWork: progress is a share of the tokens. Tokens from before a restart count as done, but not for the speed.
func TestWork(t *testing.T) {
	short, long := &recipe.Phase{GlobalBatch: 2, Length: 8}, &recipe.Phase{GlobalBatch: 2, Length: 24}
	w := work{total: tokens(short, 4) + tokens(long, 4)}
	w.done = tokens(short, 3)
	w.start()
	w.began = w.began.Add(-time.Second) // one second for the next step
	_, share, left := w.step(short, short.GlobalBatch)
	if want := 4. / 16; math.Abs(share-want) > 1e-12 {
		t.Errorf("share %v, want %v", share, want)
	}
	// 16 tokens took a second and 192 are left: 12 s, or more if this process waited for a CPU.
	if left < 12*time.Second || left > 2*time.Minute {
		t.Errorf("%v left, want 12 s", left)
	}
	for range 4 {
		_, share, left = w.step(long, long.GlobalBatch)
	}
	if math.Abs(share-1) > 1e-12 || left > time.Millisecond {
		t.Errorf("at the end: share %v, %v left", share, left)
	}
}

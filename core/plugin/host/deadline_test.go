package host_test

import (
	"errors"
	"testing"
	"time"

	"harness.invalid/core/optimizer"
	"harness.invalid/core/plugin"
	"harness.invalid/core/plugin/host"
)

// TestHangLater: a call that takes far longer than those before it counts as hung, however long a first call may take.
func TestHangLater(t *testing.T) {
	for _, transport := range transports {
		s := spec(t, plugin.Optimizer, "hang-later", transport)
		s.Timeouts.Step, s.Timeouts.Floor = time.Hour, 400*time.Millisecond
		p := start(t, s)
		u, _ := updates(t, p)
		for n := 1; n < 5; n++ {
			if _, err := u.Step(t.Context(), optimizer.Step{Step: n, LR: 0.1}); err != nil {
				t.Fatal(err)
			}
		}
		_, err := u.Step(t.Context(), optimizer.Step{Step: 5, LR: 0.1})
		if !errors.Is(err, host.ErrDied) {
			t.Errorf("%s: error is %v, want %v", transport, err, host.ErrDied)
		}
		wants(t, err, "optimizer hang-later: step 5: no answer within ", "was killed")
	}
}

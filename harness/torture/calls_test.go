//go:build unix

package torture

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// TestCalls: whichever call a plugin dies at, before it or after it, and whatever it leaves half changed, the run goes on by
// itself with plugins that are started again, and ends with the same bits. In the long form files fail as well.
func TestCalls(t *testing.T) {
	e := whole(t)
	s := newSuite(t, "plugins that die at a call", 0.1)
	dir := filepath.Join(scratch, "calls")
	count := newDevices()
	if _, err := e.disturbed(dir, count, 0, new(saboteur)); err != nil {
		t.Fatal(err)
	}
	one := func(at map[int]bool, done, spoil bool, f *saboteur) {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		d := newDevices()
		d.spoil = spoil
		var struck []string
		d.die = func(n int, call string) (bool, bool) {
			if at[n] {
				struck = append(struck, call)
			}
			return at[n], done
		}
		o, err := e.disturbed(dir, d, len(at), f)
		what := fmt.Sprintf("calls %v, done %v, spoil %v, operation %d %s", at, done, spoil, f.at, f.way)
		if f.struck != "" {
			struck = append(struck, f.way+" "+f.struck)
		}
		switch {
		case err == nil:
			if diff := e.whole.differs(o); diff != "" {
				err = errors.New("it differs in " + diff)
			}
		case f.struck != "":
			err = e.recovers(dir)
		}
		s.trial(what, err, struck...)
	}
	const short = 12
	i, stride := 0, 1
	if *long == 0 {
		stride = 3*len(count.calls)/short + 1
	}
	for n := range count.calls {
		for _, how := range [][2]bool{{false, false}, {true, false}, {true, true}} {
			if i++; i%stride == 0 && *seed == 1 {
				one(map[int]bool{n + 1: true}, how[0], how[1], new(saboteur))
			}
		}
	}
	draw := rand.New(rand.NewPCG(uint64(*seed), 3))
	for *long > 0 && s.more(short) {
		at := map[int]bool{}
		for range 1 + draw.IntN(3) {
			at[1+draw.IntN(len(count.calls))] = true
		}
		f := new(saboteur)
		if draw.IntN(2) == 0 {
			f = &saboteur{at: 1 + draw.IntN(200), way: ways[draw.IntN(len(ways))]}
		}
		one(at, draw.IntN(2) == 0, draw.IntN(2) == 0, f)
	}
	t.Logf("%d calls, %d trials, %d faults, %d lost", len(count.calls), s.trials, s.faults, s.lost)
}

//go:build unix

package torture

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"harness.invalid/harness/catalog"
)

var (
	long       = flag.Duration("torture.for", 0, "how long to inject faults, in all; 0: the short form")
	seed       = flag.Int64("torture.seed", 1, "of the faults that are drawn; seed 1 first tries each by itself")
	scratch    string // a folder for all tests
	background = context.Background()
)

// TestMain plays a plugin or a host if the test binary was started as one. It uses one thread: the tiny model does not
// keep two busy, and other packages are tested at the same time.
func TestMain(m *testing.M) {
	if play := role(); play != nil {
		play()
		return
	}
	if kind, name, ok := catalog.Asked(os.Args); ok { // a built-in plugin of a soak
		if err := catalog.Serve(kind, name); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(400)
	flag.Parse()
	var err error
	if scratch, err = os.MkdirTemp("", "harness-torture-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	code := m.Run()
	if made {
		if e, err := undisturbed(); err == nil {
			_ = e.data.Close()
		}
	}
	_ = os.RemoveAll(scratch)
	fmt.Print(table())
	os.Exit(code)
}

// suite counts the trials of a test.
type suite struct {
	t                    testing.TB
	name                 string
	trials, faults, lost int
	end                  time.Time // of a long form
	began                time.Time
	points               map[string]int // faults at each named point
}

var (
	suites   []*suite
	suitesMu sync.Mutex
)

// newSuite begins a test that may take a share of the time of the long form.
func newSuite(t testing.TB, name string, share float64) *suite {
	s := &suite{t: t, name: name, points: map[string]int{}, began: time.Now()}
	s.end = s.began.Add(time.Duration(share * float64(*long)))
	suitesMu.Lock()
	defer suitesMu.Unlock()
	suites = append(suites, s)
	return s
}

// more reports whether to go on with trials: in the long form until its time is over, in the short one for so many.
func (s *suite) more(short int) bool {
	if *long == 0 {
		return s.trials < short
	}
	return time.Now().Before(s.end)
}

// trial counts a trial with its faults, named by the points where they struck, and what was wrong with its outcome.
func (s *suite) trial(what string, wrong error, struck ...string) {
	s.trials++
	s.faults += len(struck)
	for _, p := range struck {
		s.points[p]++
	}
	if wrong != nil {
		s.lost++
		if s.lost <= 20 {
			s.t.Errorf("%s, faults at %q: %v", what, struck, wrong)
		}
	}
}

// table is that of docs/reliability.md; empty unless the long form ran.
func table() string {
	if *long == 0 || len(suites) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("| Test | Trials | Faults injected | Named points | Lost |\n|---|---|---|---|---|\n")
	var all suite
	for _, s := range suites {
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d |\n", s.name, s.trials, s.faults, len(s.points), s.lost)
		all.trials, all.faults, all.lost = all.trials+s.trials, all.faults+s.faults, all.lost+s.lost
	}
	fmt.Fprintf(&b, "| all | %d | %d | | %d |\n", all.trials, all.faults, all.lost)
	return b.String()
}

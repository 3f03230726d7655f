package train

import (
	"errors"
	"runtime"
	"testing"
	"time"
)

// TestDue simulates runs whose checkpoints cost more and less: a crash costs a minute where saving is cheap, and saving
// costs 3.5% of the time where it is not.
func TestDue(t *testing.T) {
	for _, c := range []struct {
		name        string
		step        time.Duration
		copy, write time.Duration // write as measured, by one of GOMAXPROCS threads
		between     time.Duration // longest time between checkpoints
		saved       int           // at least, in ten hours
	}{
		{"small model", 20 * time.Millisecond, time.Millisecond, 50 * time.Millisecond, saveInterval + time.Second, 590},
		{"long steps", 50 * time.Second, time.Second, time.Second, 102 * time.Second, 350},
		{"slow disk", time.Second, time.Second, time.Duration(runtime.GOMAXPROCS(0)) * 20 * time.Second, 20 * time.Minute, 58},
	} {
		now := time.Now()
		s := newSaver()
		s.began = now
		began, last, longest, saved := now, now, time.Duration(0), 0
		for now.Sub(began) < 10*time.Hour {
			now = now.Add(c.step)
			if s.writing != nil && now.Sub(last) >= c.copy+c.write {
				if err := s.ended(written{took: c.write}); err != nil {
					t.Fatal(err)
				}
			}
			if s.due(now) {
				longest = max(longest, now.Sub(last))
				last, s.last, s.copying, s.writing = now, now, c.copy, make(chan written, 1)
				saved++
				now = now.Add(c.copy)
			}
			if share := float64(s.spent) / float64(now.Sub(began)); saved > 1 && share > saveShare*1.01 {
				t.Fatalf("%s: after %d checkpoints in %v they cost %.1f%%", c.name, saved, now.Sub(began), 100*share)
			}
		}
		if longest > c.between || saved < c.saved {
			t.Errorf("%s: %d checkpoints, the longest time between two is %v, want at least %d and at most %v",
				c.name, saved, longest, c.saved, c.between)
		}
	}
}

// TestSaverFails: an error of a checkpoint that was written beside training comes up later, once.
func TestSaverFails(t *testing.T) {
	full := errors.New("disk full")
	for name, take := range map[string]func(*saver) error{
		"wait": (*saver).wait,
		"poll": func(s *saver) error {
			for s.writing != nil {
				if err := s.poll(); err != nil {
					return err
				}
			}
			return nil
		},
	} {
		s := newSaver()
		s.writing = make(chan written, 1)
		go func(c chan written) { c <- written{err: full} }(s.writing)
		if err := take(s); !errors.Is(err, full) {
			t.Errorf("%s: error is %v, want %v", name, err, full)
		}
		if err := take(s); err != nil || s.writing != nil {
			t.Errorf("%s: again %v", name, err)
		}
	}
}

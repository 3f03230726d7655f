package train

import (
	"runtime"
	"slices"
	"time"

	"harness.invalid/core/checkpoint"
)

// Unless a recipe says how many steps lie between checkpoints, a crash is to cost about saveInterval, and saving no more
// than saveShare of the time.
const (
	saveInterval = time.Minute
	saveShare    = 0.035
)

// saver writes checkpoints beside training, one at a time.
type saver struct {
	interval time.Duration
	began    time.Time
	last     time.Time     // when the newest checkpoint was begun; zero: none was
	spent    time.Duration // of training, on checkpoints
	cost     time.Duration // of the last one; 0: not known
	writing  chan written  // nil: nothing is being written
	copying  time.Duration // of the one that is being written
	copies   [][]float32   // of tensors; they are used again
	beside   float64       // seconds in which checkpoints were written beside training, not yet in the totals
}

// written is the end of a checkpoint.
type written struct {
	took time.Duration
	err  error
}

func newSaver() *saver { return &saver{interval: saveInterval, began: time.Now()} }

// due reports whether the next checkpoint is worth its time: the last one is old enough, and with another the share of
// the time that went into checkpoints stays within bounds. The cost of the first is not known before.
func (s *saver) due(now time.Time) bool {
	since := s.last
	if since.IsZero() {
		since = s.began
	}
	return s.writing == nil && now.Sub(since) >= s.interval &&
		float64(s.spent+s.cost) <= saveShare*float64(now.Sub(s.began))
}

// poll takes note of a checkpoint that has been written in the meantime.
func (s *saver) poll() error {
	select {
	case w := <-s.writing: // never, if it is nil
		return s.ended(w)
	default:
		return nil
	}
}

// wait waits for the checkpoint that is being written.
func (s *saver) wait() error {
	if s.writing == nil {
		return nil
	}
	return s.ended(<-s.writing)
}

// ended counts the cost of a checkpoint: the time that training waited for its copy, and as much of the time of writing as
// one thread could take from training, which uses all.
func (s *saver) ended(w written) error {
	s.writing = nil
	s.beside += w.took.Seconds()
	s.cost = s.copying + w.took/time.Duration(runtime.GOMAXPROCS(0))
	s.spent += s.cost
	return w.err
}

// begin starts to write a checkpoint whose copy took so long.
func (s *saver) begin(u *unsaved, copying time.Duration) {
	s.last, s.copying = time.Now(), copying
	c := make(chan written, 1)
	s.writing = c
	go func() {
		start := time.Now()
		err := u.write()
		c <- written{time.Since(start), err}
	}()
}

// copy replaces tensors that training is about to change. The average is a copy already.
func (s *saver) copy(t *checkpoint.Tensors) {
	n := 0
	take := func(values []float32) []float32 {
		if n == len(s.copies) {
			s.copies = append(s.copies, nil)
		}
		s.copies[n] = append(s.copies[n][:0], values...)
		n++
		return s.copies[n-1]
	}
	t.Params = take(t.Params)
	t.Slots = slices.Clone(t.Slots)
	for i := range t.Slots {
		t.Slots[i].Values = take(t.Slots[i].Values)
	}
}

package synthetic

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

	"harness.invalid/core/durable"
)

// ErrInvalid is wrapped by every error about settings.
var ErrInvalid = errors.New("invalid settings of a generated world")

// Settings say which world is made up, and how much of it is written.
type Settings struct {
	Seed uint64
	// People is the number of people, 50 to 6400. One in ten, and at least ten, are those whom only dev questions mention.
	People int
	// Questions and DevQuestions are the numbers of questions for training and evaluation, at least 1 each.
	Questions, DevQuestions int
}

// Validate reports the first setting out of range.
func (s Settings) Validate() error {
	for _, f := range []struct {
		name             string
		value, low, high int
	}{
		{"people", s.People, minPeople, maxPeople()},
		{"questions", s.Questions, 1, math.MaxInt32},
		{"dev questions", s.DevQuestions, 1, math.MaxInt32},
	} {
		if f.value < f.low || f.value > f.high {
			return fmt.Errorf("world: %s is %d, want %d to %d: %w", f.name, f.value, f.low, f.high, ErrInvalid)
		}
	}
	return nil
}

// Files are the paths of the files from Write.
type Files struct {
	Text  string // for pre-training: one sentence a line, a blank line behind each document
	Train string // questions, SQuAD v1.1
	Dev   string // questions about people whom Train does not mention
}

// Write writes text.txt, train.json and dev.json to dir, which it creates if needed. Each file is either complete
// or unchanged.
func Write(dir string, s Settings) (Files, error) {
	if err := s.Validate(); err != nil {
		return Files{}, err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return Files{}, fmt.Errorf("world: %w", err)
	}
	f := Files{filepath.Join(dir, "text.txt"), filepath.Join(dir, "train.json"), filepath.Join(dir, "dev.json")}
	w := newWorld(s.Seed, s.People)
	for _, file := range []struct {
		path  string
		write func(io.Writer) error
	}{
		{f.Text, w.text},
		{f.Train, func(out io.Writer) error { return w.train(out, s.Questions) }},
		{f.Dev, func(out io.Writer) error { return w.evaluation(out, s.DevQuestions) }},
	} {
		if err := durable.WriteOnce(file.path, file.write); err != nil {
			return Files{}, err
		}
	}
	return f, nil
}

// Text writes the text for pre-training.
func Text(out io.Writer, s Settings) error {
	if err := s.Validate(); err != nil {
		return err
	}
	return newWorld(s.Seed, s.People).text(out)
}

// SQuAD writes the questions for training and for evaluation.
func SQuAD(train, dev io.Writer, s Settings) error {
	if err := s.Validate(); err != nil {
		return err
	}
	w := newWorld(s.Seed, s.People)
	if err := w.train(train, s.Questions); err != nil {
		return err
	}
	return w.evaluation(dev, s.DevQuestions)
}

func (w *world) train(out io.Writer, questions int) error {
	_, err := data("train", w.quests(partTraining, w.training(), questions)).WriteTo(out)
	return err
}

func (w *world) evaluation(out io.Writer, questions int) error {
	_, err := data("dev", w.quests(partDev, w.held(), questions)).WriteTo(out)
	return err
}

package backend

import (
	"context"
	"fmt"
	"strings"

	"harness.invalid/core/optimizer"
)

// Estimator is a Backend with a model of its machine: how long a program takes there, and how much of the memory.
// It is optional: a host finds it by a type assertion. Nothing is trained, and all times are modelled.
type Estimator interface {
	// Systems lists the systems that the backend knows by name.
	Systems(ctx context.Context) ([]System, error)
	// Variations lists other ways to lay a program out on a system, for a sweep. Replicas, micro-batch and
	// accumulation are not among them: they are the program's, and a host varies them itself.
	Variations(ctx context.Context, p Program, on Machine) ([]Variation, error)
	// Estimate models one step of a program. A program that no machine of the system can run as it is cut is an error
	// that says which field is wrong and what the system takes instead. One that is merely too large for the memory is
	// an estimate whose Fits is false and whose Err says why.
	Estimate(ctx context.Context, p Program, on Machine) (Estimate, error)
}

// System is a system that a backend models.
type System struct {
	Name string // as in Machine.System
	Doc  string // one line
}

// Variation is another value of something that a program leaves to the backend, such as the layers on each device.
type Variation struct {
	Varied  string            // what is varied, such as "layers per IPU"; variations of the same thing follow each other
	Value   string            // such as 3,7,7,7
	Options map[string]string // that do it, in place of those that the program has
}

// Machine is what a program is modelled on, and what it does there besides what Program says.
type Machine struct {
	System      string         // name of a system of the backend; empty: the backend's option "system"
	Description string         // YAML of a system that the backend does not know; takes precedence over System
	Grow        bool           // a system with too few devices stands for the larger ones of its family
	Update      optimizer.Cost // of the optimizer over bert.Parameters of the program; without tensors: there is no update
	Packing     float64        // sequences of the data in one sequence of the program; 0 or 1: not packed
}

// Estimate is a modelled step.
type Estimate struct {
	System             string
	SequencesPerSecond float64     // of the data: packed ones are counted one by one
	Confidence         *Confidence // in SequencesPerSecond; nil: the model states none
	StepSeconds        float64
	GlobalBatch        int     // sequences of the data in a step
	PeakShare          float64 // arithmetic of the model without recomputation, as a share of what the devices could do in the time
	Breakdown          []Phase // of StepSeconds, which is their sum
	Memory             []DeviceMemory
	OffChip            []DeviceMemory // slower memory beside each device that has one; empty: there is none
	Pipeline           Pipeline
	Advice             string  // what would make it fit, in words; empty when it does
	Remedy             *Remedy // the same as settings; nil when it fits, or when nothing that the backend knows makes it fit
	Assumptions        []Assumption
}

// Confidence is how sure a modelled figure is.
type Confidence struct {
	Low, High float64
	Level     float64 // share of published programs whose figure lies between Low and High
	Inside    bool    // whether the program is like published ones; otherwise the interval has never been checked for it
	Why       string  // what the interval comes from, or in what the program differs from all published ones
}

// Assumption is something that the numbers of an estimate rest on and that the program does not say, or that the run does
// another way.
type Assumption struct {
	Setting  string // what it is about: an option, a field of the program, or another word
	Modelled string // value that is modelled; empty: there is none to tell
	Run      string // value that the run has, where it has another one
	Reason   string // why, in words
}

// String is the assumption as a footnote.
func (a Assumption) String() string {
	text := a.Setting
	if a.Modelled != "" {
		text += " is modelled as " + a.Modelled
	}
	if a.Run != "" {
		text += ", the run has " + a.Run
	}
	return text + ": " + a.Reason
}

// Remedy is a change of a program with which it fits: another cut of the same global batch, and options in place of
// those that it has.
type Remedy struct {
	MicroBatch, Accumulation, Replicas int
	Options                            map[string]string
}

// Fits reports whether every device has the memory that it needs, its own and beside it.
func (e *Estimate) Fits() bool { return e.lacking() == nil }

// lacking is the memory that lacks most; nil: all fits.
func (e *Estimate) lacking() *DeviceMemory {
	var worst *DeviceMemory
	for _, list := range [][]DeviceMemory{e.Memory, e.OffChip} {
		for i := range list {
			d := &list[i]
			if d.Total() > d.Bytes && (worst == nil || d.Total()-d.Bytes > worst.Total()-worst.Bytes) {
				worst = d
			}
		}
	}
	return worst
}

// Err is nil when the program fits, and else names the device that lacks most: ErrOutOfMemory.
func (e *Estimate) Err() error {
	d := e.lacking()
	if d == nil {
		return nil
	}
	var most MemoryPart
	for _, p := range d.Parts {
		if p.Bytes > most.Bytes {
			most = p
		}
	}
	return fmt.Errorf("%s: %s needs %s, has %s (most of it %s, %s): %w", e.System, d.Device, megabytes(d.Total()), megabytes(d.Bytes),
		strings.ToLower(most.Name), megabytes(most.Bytes), ErrOutOfMemory)
}

func megabytes(b int64) string { return fmt.Sprintf("%.1f MB", float64(b)/1e6) }

// DeviceMemory is the plan of one device's memory.
type DeviceMemory struct {
	Device string // such as IPU 0
	Bytes  int64  // that it has
	Parts  []MemoryPart
	Moved  int64 // bytes that a step moves between this memory and the device; 0 for the device's own
}

// Total is what the device needs.
func (d DeviceMemory) Total() int64 {
	var sum int64
	for _, p := range d.Parts {
		sum += p.Bytes
	}
	return sum
}

// MemoryPart is what one thing takes.
type MemoryPart struct {
	Name  string // weights, gradients, stash, activations, optimizer, code ...
	Bytes int64
}

// Pipeline is how the devices of one replica go through a step: in cycle c, from 0, a stage works on micro-batch
// c-Offset, if there is one. Without a pipeline there is one stage.
type Pipeline struct {
	Stages       []Stage
	Cycles       int     // of a step
	CycleSeconds float64 // of a cycle: of the slowest device, with the copies between devices
	Sequential   bool    // one micro-batch goes through all stages before the next: stages take turns within a cycle
	Update       []Phase // what follows the last cycle, in order
}

// Stage is a part of the model on a device.
type Stage struct {
	Name   string
	Device int
	Offset int     // in cycle c it works on micro-batch c-Offset, if there is one
	Start  float64 // seconds of a cycle before which it does not begin
	Parts  []Phase // forward, recomputation, backward; in order
	Stash  int     // micro-batches whose activations wait for the backward pass
}

package weights

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"

	"harness.invalid/core/tensor"
)

// Inspection describes a file of tensors.
type Inspection struct {
	File     string            `json:"file"`
	Format   string            `json:"format"`
	Metadata map[string]string `json:"metadata,omitempty"`
	Elements int64             `json:"elements"` // of all tensors; shared data count once
	Bytes    int64             `json:"bytes"`
	Tensors  []InspectedTensor `json:"tensors"`
}

// InspectedTensor describes a tensor. Statistics are absent before Measure and for types that are not numbers.
type InspectedTensor struct {
	Name   string       `json:"name"`
	DType  tensor.DType `json:"dtype"`
	Shape  tensor.Shape `json:"shape"`
	Bytes  int64        `json:"bytes"`
	File   string       `json:"file"`
	Offset int64        `json:"offset"`           // of the first value in the file
	Shares string       `json:"shares,omitempty"` // the earlier tensor whose data it shares
	Min    *float64     `json:"min,omitempty"`    // of the finite values, if there are any
	Max    *float64     `json:"max,omitempty"`
	Mean   *float64     `json:"mean,omitempty"`
	Std    *float64     `json:"std,omitempty"`
	Zeros  *int         `json:"zeros,omitempty"`
	NaNs   *int         `json:"nans,omitempty"`
	Infs   *int         `json:"infs,omitempty"`

	source Tensor
}

// Inspect lists the tensors of an open file. It reads no values.
func Inspect(f *File) *Inspection {
	in := &Inspection{File: f.Name(), Format: f.Format(), Metadata: f.Metadata(), Tensors: []InspectedTensor{}}
	for _, t := range f.Tensors() {
		in.add(t)
	}
	return in
}

func (in *Inspection) add(t Tensor) {
	i := InspectedTensor{
		Name: t.Name, DType: t.DType, Shape: append(tensor.Shape{}, t.Shape...), Bytes: t.ByteLen(),
		File: t.Part().Name(), Offset: t.Offset(), source: t,
	}
	for _, other := range in.Tensors {
		if i.Bytes > 0 && t.SameData(other.source) {
			i.Shares = other.Name
			break
		}
	}
	if i.Shares == "" {
		in.Elements += int64(t.Shape.Len())
		in.Bytes += i.Bytes
	}
	in.Tensors = append(in.Tensors, i)
}

// Measure computes statistics of all values, several tensors at a time, and reports the bytes done to observe. The
// file must still be open.
func (in *Inspection) Measure(ctx context.Context, observe func(done, total int64)) error {
	var mu sync.Mutex
	var wait sync.WaitGroup
	next, done, total := 0, int64(0), int64(0)
	for _, t := range in.Tensors {
		total += t.Bytes
	}
	errs := make([]error, len(in.Tensors))
	for range min(runtime.GOMAXPROCS(0), len(in.Tensors)) {
		wait.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				mu.Unlock()
				if i >= len(in.Tensors) || ctx.Err() != nil {
					return
				}
				errs[i] = in.Tensors[i].measure()
				mu.Lock()
				done += in.Tensors[i].Bytes
				observe(done, total)
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	return errors.Join(append(errs, ctx.Err())...)
}

// measure reads the values of a tensor.
func (i *InspectedTensor) measure() error {
	s, ok, err := i.source.Statistics()
	if err != nil || !ok {
		return err
	}
	i.Zeros, i.NaNs, i.Infs = &s.Zeros, &s.NaNs, &s.Infs
	if !math.IsNaN(s.Mean) {
		i.Min, i.Max, i.Mean, i.Std = &s.Min, &s.Max, &s.Mean, &s.Std
	}
	return nil
}

// Notes describes anything unusual; "" if nothing is.
func (i *InspectedTensor) Notes() string {
	notes := ""
	if i.NaNs != nil && *i.NaNs > 0 {
		notes += fmt.Sprintf("%d NaN ", *i.NaNs)
	}
	if i.Infs != nil && *i.Infs > 0 {
		notes += fmt.Sprintf("%d Inf ", *i.Infs)
	}
	if i.Shares != "" {
		notes += "shares " + i.Shares
	}
	return notes
}

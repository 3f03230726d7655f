// Package thismachine models a training step of the backend torch on the CPU of this machine, from what `harness bench
// machine` measured: the rate of multiply-adds and of memory, what PyTorch's operators take for their work and besides it,
// and what a call of a plugin takes. It is a system like others in harness estimate, and one whose truth can be had here:
// measured steps, of which none went into the model, judge it and give its estimates their interval.
package thismachine

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/goccy/go-yaml"

	"harness.invalid/core/bert"
	"harness.invalid/core/bounded"
	"harness.invalid/core/durable"
	"harness.invalid/core/machine"
)

// Name of the system, and Backend that it is the machine of.
const (
	Name    = "this-machine"
	Backend = "torch"
)

// System is what was measured.
type System struct {
	Name     string `yaml:"name"`
	Measured string `yaml:"measured"` // date
	CPU      string `yaml:"cpu"`
	Profile  `yaml:",inline"`
	// FMAFlops are multiply-adds on registers, a multiply-add counted as two; MemoryBytesPerSecond that of a pass over
	// an array that is in no cache; CallSeconds those of a call of a plugin that does nothing.
	FMAFlops             float64 `yaml:"fma_flops"`
	MemoryBytesPerSecond float64 `yaml:"memory_bytes_per_second"`
	MemoryBytes          int64   `yaml:"memory_bytes"`
	CallSeconds          float64 `yaml:"call_seconds"`
	// Steps were measured in turn with all that.
	Steps []Step `yaml:"steps"`
}

// Profile is what PyTorch's operators take: plugins/torch/harness_torch/machine.py.
type Profile struct {
	Software  string             `json:"software" yaml:"software"`
	Threads   int                `json:"threads" yaml:"threads"`
	Operator  Pair               `json:"operator_seconds" yaml:"operator_seconds"` // besides its work
	Products  []Product          `json:"products" yaml:"products"`
	Attention []Attention        `json:"attention" yaml:"attention"`
	Passes    map[string]Pair    `json:"passes" yaml:"passes"`       // seconds an element
	Gradients map[string]float64 `json:"gradients" yaml:"gradients"` // seconds an element that is in no cache
}

// Pair is a figure of the forward pass and one of the backward pass.
type Pair struct {
	Forward  float64 `json:"forward" yaml:"forward"`
	Backward float64 `json:"backward" yaml:"backward"`
}

// Product has the floating point operations a second of products whose smallest dimension is Dimension.
type Product struct {
	Dimension int     `json:"dimension" yaml:"dimension"`
	Forward   float64 `json:"forward" yaml:"forward"`
	Backward  float64 `json:"backward" yaml:"backward"`
}

// Attention has the seconds of a product [Length, 64] x [64, Length] of one head.
type Attention struct {
	Length   int     `json:"length" yaml:"length"`
	Forward  float64 `json:"forward" yaml:"forward"`
	Backward float64 `json:"backward" yaml:"backward"`
}

// Step is a measured step of pre-training with AdamW.
type Step struct {
	Model   string  `yaml:"model"`
	Length  int     `yaml:"length"`
	Batch   int     `yaml:"batch"`
	Seconds float64 `yaml:"seconds"`
}

// passNames are those that the model needs.
var passNames = []string{"add", "multiply", "copy", "dropout", "softmax", "gelu", "norm", "entropy", "argmax", "embedding"}

// Validate implements machine.System.
func (s *System) Validate() error {
	figures := map[string]float64{
		"fma_flops": s.FMAFlops, "memory_bytes_per_second": s.MemoryBytesPerSecond, "memory_bytes": float64(s.MemoryBytes),
		"call_seconds": s.CallSeconds, "operator_seconds.forward": s.Operator.Forward, "operator_seconds.backward": s.Operator.Backward,
		"products": float64(len(s.Products)), "attention": float64(len(s.Attention)), "threads": float64(s.Threads),
	}
	for _, p := range s.Products {
		figures["products.dimension"] = min(cmp.Or(figures["products.dimension"], 1), float64(p.Dimension))
		figures[fmt.Sprintf("products of %d", p.Dimension)] = min(p.Forward, p.Backward)
	}
	for _, a := range s.Attention {
		figures[fmt.Sprintf("attention of %d", a.Length)] = min(a.Forward, a.Backward, float64(a.Length))
	}
	for _, name := range passNames {
		figures["passes."+name] = s.Passes[name].Forward
	}
	for _, name := range []string{"zero", "add", "sum"} {
		figures["gradients."+name] = s.Gradients[name]
	}
	for _, p := range s.Steps {
		figures["steps"] = min(p.Seconds, float64(p.Length), float64(p.Batch))
		if _, err := bert.Defaults().Size(p.Model); err != nil {
			return fmt.Errorf("steps: %w", err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(figures)) {
		if v := figures[name]; !(v > 0 && v < 1e18) {
			return fmt.Errorf("%s is %g, want a positive number", name, v)
		}
	}
	return nil
}

// Line implements machine.System.
func (s *System) Line() string {
	return fmt.Sprintf("%s on %d threads of %s, measured %s", s.Software, s.Threads, s.CPU, s.Measured)
}

// Path is the file in the user's cache that harness bench machine writes.
func Path() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("%s: %w: set XDG_CACHE_HOME", Name, err)
	}
	return filepath.Join(cache, "harness", Name+".yaml"), nil
}

// Load reads the file in the user's cache.
func Load() (*System, error) {
	path, err := Path()
	if err != nil {
		return nil, err
	}
	text, err := bounded.ReadFile(path, bounded.MiB)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("system %s has not been measured: harness bench machine does that, in %s", Name, path)
	}
	if err != nil {
		return nil, err
	}
	return Parse(string(text))
}

// Parse reads a description. It extends no other: every figure is of one machine.
func Parse(text string) (*System, error) {
	return machine.Catalog[System, *System]{Files: embed.FS{}}.Parse(text)
}

// Write writes a description.
func (s *System) Write(path string) error {
	text, err := yaml.Marshal(s)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return durable.WriteFile(path, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "# Written by harness bench machine.\n%s", text)
		return err
	})
}

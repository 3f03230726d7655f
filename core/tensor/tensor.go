// Package tensor names the pieces of a flat float32 buffer: which tensor lies where, in which shape, and what kind
// of parameter it is.
//
// Names, shapes and kinds go in, a Layout comes out: the model (core/bert) makes it, and everything that touches
// parameters uses it: the arena that holds them, the backend that reads them, the optimizer that updates them, the
// checkpoint that stores them. A Layout contains no numbers itself.
package tensor

import (
	"fmt"
	"slices"
	"strings"
)

// DType is the type of the elements of a stored tensor, in the spelling of the safetensors format.
type DType string

// The types that harness reads or writes.
const (
	F64  DType = "F64"
	F32  DType = "F32"
	F16  DType = "F16"
	BF16 DType = "BF16"
	I64  DType = "I64"
	I32  DType = "I32"
	U8   DType = "U8"
	Bool DType = "BOOL"
)

// Size is the number of bytes of one element, 0 for an unknown type.
func (d DType) Size() int {
	switch d {
	case F64, I64:
		return 8
	case F32, I32:
		return 4
	case F16, BF16:
		return 2
	case U8, Bool:
		return 1
	}
	return 0
}

// Shape is the extent of each axis, outermost first; the empty shape is a scalar.
type Shape []int

// Len is the number of elements.
func (s Shape) Len() int {
	n := 1
	for _, d := range s {
		n *= d
	}
	return n
}

// String prints the shape as [2 3].
func (s Shape) String() string { return strings.ReplaceAll(fmt.Sprint([]int(s)), ",", "") }

// Kind is what a parameter is to an optimizer. Update rules may go by kind (no weight decay on biases, say), but
// never by name.
type Kind uint8

// The kinds of parameters of BERT. The numbers are part of the wire format.
const (
	Weight    Kind = iota // matrix of a linear layer, [out, in]
	Embedding             // table of vectors, [entries, width]
	Bias                  // bias of a linear layer
	NormScale             // gamma of a layer normalisation
	NormBias              // beta of a layer normalisation
	kinds
)

var kindNames = [kinds]string{"weight", "embedding", "bias", "norm_scale", "norm_bias"}

// String returns the kind's name as recipes spell it.
func (k Kind) String() string {
	if k < kinds {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", k)
}

// Tensor is one named piece of a flat buffer.
type Tensor struct {
	Name   string
	Shape  Shape
	Kind   Kind
	Offset int // of the first element, in elements from the start of the section
}

// Len is the number of elements.
func (t Tensor) Len() int { return t.Shape.Len() }

// Of returns the tensor's elements in a buffer of its layout.
func (t Tensor) Of(section []float32) []float32 {
	return section[t.Offset : t.Offset+t.Len() : t.Offset+t.Len()]
}

// Align is the alignment of each tensor in a buffer, in elements: 64 bytes, one cache line and one AVX-512 register.
const Align = 16

// Layout is the order of tensors in a flat buffer. The zero value is an empty layout; Add appends.
//
// Elements between the end of one tensor and the aligned start of the next are padding and zero in every section.
type Layout struct {
	tensors []Tensor
	index   map[string]int
	size    int
}

// NewLayout returns the layout of the given tensors in order, with their offsets set.
func NewLayout(tensors ...Tensor) (*Layout, error) {
	l := &Layout{index: make(map[string]int, len(tensors))}
	for _, t := range tensors {
		if err := l.add(t); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// MaxLen is the largest number of elements in a layout (1 TiB of float32), which limits what a plugin or a file can
// ask for.
const MaxLen = 1 << 38

func (l *Layout) add(t Tensor) error {
	if t.Name == "" {
		return fmt.Errorf("tensor: tensor %d has no name", len(l.tensors))
	}
	if _, ok := l.index[t.Name]; ok {
		return fmt.Errorf("tensor: two tensors are named %s", t.Name)
	}
	if t.Kind >= kinds {
		return fmt.Errorf("tensor: %s has unknown kind %d", t.Name, t.Kind)
	}
	n := 1
	for _, d := range t.Shape {
		if d < 1 || n > MaxLen/d {
			return fmt.Errorf("tensor: %s has shape %v, want extents of at least 1 and at most %d elements", t.Name, t.Shape, MaxLen)
		}
		n *= d
	}
	if l.size > MaxLen-n-Align {
		return fmt.Errorf("tensor: layout exceeds %d elements at %s", MaxLen, t.Name)
	}
	t.Shape = slices.Clone(t.Shape)
	t.Offset = l.size
	l.index[t.Name] = len(l.tensors)
	l.tensors = append(l.tensors, t)
	l.size = (l.size + n + Align - 1) / Align * Align
	return nil
}

// Len is the number of elements of a buffer with this layout, padding included.
func (l *Layout) Len() int { return l.size }

// Parameters is the number of elements without padding.
func (l *Layout) Parameters() int {
	n := 0
	for _, t := range l.tensors {
		n += t.Len()
	}
	return n
}

// Tensors returns all tensors in order. The caller must not change them.
func (l *Layout) Tensors() []Tensor { return l.tensors }

// Lookup finds a tensor by name.
func (l *Layout) Lookup(name string) (Tensor, bool) {
	i, ok := l.index[name]
	if !ok {
		return Tensor{}, false
	}
	return l.tensors[i], true
}

// Equal reports whether two layouts have the same tensors in the same order.
func (l *Layout) Equal(m *Layout) bool {
	return slices.EqualFunc(l.tensors, m.tensors, func(a, b Tensor) bool {
		return a.Name == b.Name && a.Kind == b.Kind && slices.Equal(a.Shape, b.Shape)
	})
}

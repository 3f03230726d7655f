package weights

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"harness.invalid/core/tensor"
)

// TestInspect: tensors that share their data count once, and values that are not finite are counted apart.
func TestInspect(t *testing.T) {
	var b []byte
	for _, v := range []float32{0, 2, -4, 6, float32(math.NaN()), float32(math.Inf(1))} {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	p := NewPart(bytes.NewReader(b), int64(len(b)), "p")
	var tensors []Tensor
	for _, c := range []struct {
		name   string
		n      int
		offset int64
	}{{"a", 4, 0}, {"shared", 4, 0}, {"b", 2, 16}} {
		v, err := p.Tensor(c.name, tensor.F32, tensor.Shape{c.n}, c.offset)
		if err != nil {
			t.Fatal(err)
		}
		tensors = append(tensors, v)
	}
	f, err := New("file", "test", tensors, nil, p)
	if err != nil {
		t.Fatal(err)
	}
	in := Inspect(f)
	if in.Elements != 6 || in.Bytes != 24 || in.Tensors[1].Notes() != "shares a" || in.Tensors[0].Mean != nil {
		t.Errorf("before the values are read: %+v", in)
	}
	var done, total int64
	if err := in.Measure(t.Context(), func(d, of int64) { done, total = d, of }); err != nil || done != total || total != 40 {
		t.Fatalf("%d of %d bytes, %v", done, total, err)
	}
	a := in.Tensors[0]
	if *a.Min != -4 || *a.Max != 6 || *a.Mean != 1 || *a.Zeros != 1 || a.Notes() != "" {
		t.Errorf("a is %+v", a)
	}
	if other := in.Tensors[2]; other.Notes() != "1 NaN 1 Inf " || other.Mean != nil {
		t.Errorf("b, which has no finite value, is %q, %v", other.Notes(), other.Mean)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := in.Measure(ended, func(int64, int64) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
}

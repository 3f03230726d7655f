package wire

import (
	"fmt"
	"math"
	"unsafe"

	"harness.invalid/core/plugin/internal/pb"
	"harness.invalid/core/tensor"
)

// Bytes views numbers as bytes, without a copy. The wire is little-endian, as are all processors that harness is
// built for.
func Bytes(values []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), len(values)*4)
}

// CopyFloats copies little-endian numbers, which need not be aligned, into dst.
func CopyFloats(dst []float32, values []byte) { copy(Bytes(dst), values) }

// EncodeLayout writes the tensors of a layout, in order.
func EncodeLayout(l *tensor.Layout) []*pb.Tensor {
	tensors := make([]*pb.Tensor, len(l.Tensors()))
	for i, t := range l.Tensors() {
		tensors[i] = &pb.Tensor{Name: t.Name, Shape: EncodeShape(t.Shape), Kind: pb.Kind(t.Kind)}
	}
	return tensors
}

// DecodeLayout is the inverse of EncodeLayout. Tensors that make no layout are an error.
func DecodeLayout(tensors []*pb.Tensor) (*tensor.Layout, error) {
	ts := make([]tensor.Tensor, len(tensors))
	for i, t := range tensors {
		if t.GetKind() < 0 || t.GetKind() > math.MaxUint8 {
			return nil, fmt.Errorf("tensor %s has unknown kind %d", t.GetName(), t.GetKind())
		}
		ts[i] = tensor.Tensor{Name: t.GetName(), Shape: DecodeShape(t.GetShape()), Kind: tensor.Kind(t.GetKind())}
	}
	return tensor.NewLayout(ts...)
}

// EncodeShape writes a shape.
func EncodeShape(s tensor.Shape) []int64 {
	w := make([]int64, len(s))
	for i, d := range s {
		w[i] = int64(d)
	}
	return w
}

// DecodeShape is the inverse of EncodeShape.
func DecodeShape(w []int64) tensor.Shape {
	s := make(tensor.Shape, len(w))
	for i, d := range w {
		s[i] = int(d)
	}
	return s
}

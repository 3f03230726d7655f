package plugin

import (
	"testing"

	"harness.invalid/core/plugin/internal/pb"
	"harness.invalid/core/plugin/internal/wire"
	"harness.invalid/core/tensor"
)

// TestWrite: chunks that do not lie in their section are refused.
func TestWrite(t *testing.T) {
	l, err := tensor.NewLayout(tensor.Tensor{Name: "w", Shape: tensor.Shape{16}})
	if err != nil {
		t.Fatal(err)
	}
	m, err := newMemory(nil, &pb.Memory{Tensors: wire.EncodeLayout(l)}, 2)
	if err != nil {
		t.Fatal(err)
	}
	one := []byte{0, 0, 128, 63}
	for _, good := range []*pb.SectionChunk{{Values: make([]byte, 64)}, {Section: 1, Offset: 15, Values: one}, {Offset: 16}} {
		if err := m.write(good); err != nil {
			t.Errorf("chunk %v: %v", good, err)
		}
	}
	if m.Grads()[15] != 1 {
		t.Errorf("element 15 is %g, want 1", m.Grads()[15])
	}
	for _, bad := range []*pb.SectionChunk{
		{Values: make([]byte, 68)},
		{Offset: 16, Values: make([]byte, 4)},
		{Offset: 1 << 63, Values: make([]byte, 4)},
		{Values: make([]byte, 3)},
		{Section: 2, Values: make([]byte, 4)},
		{Section: 1 << 31, Values: make([]byte, 4)},
	} {
		if err := m.write(bad); err == nil {
			t.Errorf("chunk of %d bytes at %d of section %d was taken", len(bad.Values), bad.Offset, bad.Section)
		}
	}
	if _, err := newMemory(nil, &pb.Memory{Tensors: wire.EncodeLayout(l), Offsets: []uint64{0, 65536}}, 2); err == nil {
		t.Error("offsets without an arena were taken")
	}
}

//go:build !portable

package safetensors

import "testing"

// TestMapped: a mapped tensor is no copy.
func TestMapped(t *testing.T) {
	f, size := large(t)
	if n := allocated(func() {
		data, err := f.Bytes("a")
		if err != nil || len(data) != size || data[0] != 0 || data[size-1] != 0 {
			t.Fatalf("%d bytes are mapped, want %d: %v", len(data), size, err)
		}
	}); n > 1<<20 {
		t.Errorf("%d bytes were allocated for a mapped file", n)
	}
}

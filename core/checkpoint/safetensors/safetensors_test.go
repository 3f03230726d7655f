package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"harness.invalid/core/checkpoint/weights"
	"harness.invalid/core/internal/reference"
	"harness.invalid/core/tensor"
)

// file puts a header before data, as a writer of the format would.
func file(header, data string) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), data...)
}

func read(b []byte) (*weights.File, error) {
	return NewReader(bytes.NewReader(b), int64(len(b)), "m.safetensors")
}

// example is two tensors and metadata; every error test damages it.
const (
	exampleHeader = `{"__metadata__":{"format":"pt"},` +
		`"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},` +
		`"b":{"dtype":"U8","shape":[1,3],"data_offsets":[8,11]}}`
	exampleData = "\x00\x00\x80\x3f\x00\x00\x00\xc0xyz"
)

func TestRead(t *testing.T) {
	f, err := read(file(exampleHeader+"  \n", exampleData))
	if err != nil {
		t.Fatal(err)
	}
	if got := f.Names(); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("names are %v", got)
	}
	if got := f.Metadata(); !maps.Equal(got, map[string]string{"format": "pt"}) {
		t.Errorf("metadata is %v", got)
	}
	if got, ok := f.Tensor("b"); !ok || got.DType != tensor.U8 || !slices.Equal(got.Shape, tensor.Shape{1, 3}) || got.ByteLen() != 3 {
		t.Errorf("b is %+v, %v", got, ok)
	}
	if got, err := f.Float32s("a"); err != nil || !slices.Equal(got, []float32{1, -2}) {
		t.Errorf("a is %v, %v", got, err)
	}
	if got, err := f.Bytes("b"); err != nil || string(got) != "xyz" {
		t.Errorf("b is %q, %v", got, err)
	}
	for name, call := range map[string]func() error{
		"no tensor is named":                       func() error { _, err := f.Float32s("c"); return err },
		"b\" is of type U8":                        func() error { _, err := f.Float64s("b"); return err },
		"a\" is of type F32":                       func() error { _, err := f.Int64s("a"); return err },
		"has 2 elements, want 3":                   func() error { return f.ReadFloat32s("a", make([]float32, 3)) },
		"m.safetensors: no tensor is named \"aa\"": func() error { _, err := f.Bytes("aa"); return err },
	} {
		if err := call(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("error is %v, want it to hold %q", err, name)
		}
	}
}

// TestWriteAndOpen goes through a real file with every type that can be written, more elements than one chunk, a
// scalar and an empty tensor.
func TestWriteAndOpen(t *testing.T) {
	long := make([]float32, 1<<17+3)
	for i := range long {
		long[i] = float32(i) / 7
	}
	path := filepath.Join(t.TempDir(), "m.safetensors")
	contents := []weights.Content{
		weights.Of("long", tensor.Shape{len(long)}, long),
		weights.Of("half", tensor.Shape{2, 2}, []float32{1, -0.5, 65504, 1e-7}).As(tensor.F16),
		weights.Of("brain", tensor.Shape{3}, []float32{1, float32(math.Inf(-1)), 1.00390625}).As(tensor.BF16),
		weights.Of("double", tensor.Shape{1, 1}, []float64{math.Pi}),
		weights.Of("whole", tensor.Shape{2}, []int64{math.MinInt64, 5}),
		weights.Of("int", tensor.Shape{2}, []int32{-1, 5}),
		weights.Of("flags", tensor.Shape{2}, []byte{0, 1}).As(tensor.Bool),
		weights.Of("a <scalar>", nil, []float32{3}),
		weights.Of("empty", tensor.Shape{0, 7}, []float32{}),
	}
	if err := Write(path, contents, map[string]string{"format": "pt", "b": "\"\n"}); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if want := []string{"whole", "double", "a <scalar>", "empty", "long", "int", "brain", "half", "flags"}; !slices.Equal(f.Names(), want) {
		t.Errorf("order is %v, want %v", f.Names(), want)
	}
	if diff := cmp.Diff(map[string]string{"format": "pt", "b": "\"\n"}, f.Metadata()); diff != "" {
		t.Error(diff)
	}
	check := func(name string, want any) {
		t.Helper()
		var got any
		var err error
		switch want.(type) {
		case []float32:
			got, err = f.Float32s(name)
		case []float64:
			got, err = f.Float64s(name)
		case []int64:
			got, err = f.Int64s(name)
		case []int32:
			got, err = f.Int32s(name)
		}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
	check("long", long)
	check("half", []float32{1, -0.5, 65504, 1.1920929e-07}) // 1e-7 rounds to 2 units of 2^-24
	check("brain", []float32{1, float32(math.Inf(-1)), 1})  // 1 + 2^-8 is a tie: to even
	check("double", []float64{math.Pi})
	check("double", []float32{float32(math.Pi)})
	check("whole", []int64{math.MinInt64, 5})
	check("int", []int32{-1, 5})
	check("flags", []int64{0, 1})
	check("a <scalar>", []float32{3})
	check("empty", []float32{})
	if _, err := f.Int32s("whole"); err == nil || !strings.Contains(err.Error(), "element -9223372036854775808 at 0") {
		t.Errorf("error is %v, want the element that does not fit", err)
	}
	// The header is aligned, so that the widest type is.
	var n [8]byte
	if raw, err := os.ReadFile(path); err != nil || copy(n[:], raw) != 8 || binary.LittleEndian.Uint64(n[:])%8 != 0 {
		t.Errorf("header of %d bytes (%v), want a multiple of 8", binary.LittleEndian.Uint64(n[:]), err)
	}
}

// TestRewrite: whatever is written is read back, and written again it has the same bytes.
func TestRewrite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-zA-Z0-9._<"ü-]{1,12}`), 0, 6, rapid.ID).Draw(t, "names")
		metadata := rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "metadata")
		var contents []weights.Content
		for _, name := range names {
			shape := tensor.Shape(rapid.SliceOfN(rapid.IntRange(0, 4), 0, 3).Draw(t, "shape"))
			values := rapid.SliceOfN(rapid.Float32(), shape.Len(), shape.Len()).Draw(t, "values")
			contents = append(contents, weights.Of(name, shape, values))
		}
		var first, second bytes.Buffer
		if err := WriteTo(&first, contents, metadata); err != nil {
			t.Fatal(err)
		}
		f, err := read(first.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		var again []weights.Content
		for _, info := range f.Tensors() {
			values, err := f.Float32s(info.Name)
			if err != nil {
				t.Fatal(err)
			}
			again = append(again, weights.Of(info.Name, info.Shape, values))
		}
		if err := WriteTo(&second, again, f.Metadata()); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(first.Bytes(), second.Bytes()) {
			t.Fatalf("%q is written again as %q", first.Bytes(), second.Bytes())
		}
	})
}

// TestAgainstReference reads files that another program wrote, and writes the same bytes again.
func TestAgainstReference(t *testing.T) {
	for name, path := range map[string]func(testing.TB, ...string) string{
		"bert/pretraining_tanh.safetensors":      reference.PathOrExcerpt,
		"bert/tribuo-tinybert/model.safetensors": reference.Path, // written by Hugging Face's own library
		"optimizers.safetensors":                 reference.PathOrExcerpt,
	} {
		t.Run(name, func(t *testing.T) { writeAgain(t, path(t, "golden", filepath.FromSlash(name))) })
	}
}

// writeAgain reads a file, writes what it holds, and expects the same bytes of every tensor.
func writeAgain(t *testing.T, path string) {
	t.Helper()
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var contents []weights.Content
	for _, info := range f.Tensors() {
		switch info.DType {
		case tensor.F64:
			values, err := f.Float64s(info.Name)
			if err != nil {
				t.Fatal(err)
			}
			contents = append(contents, weights.Of(info.Name, info.Shape, values))
		case tensor.F32:
			values, err := f.Float32s(info.Name)
			if err != nil {
				t.Fatal(err)
			}
			contents = append(contents, weights.Of(info.Name, info.Shape, values))
		case tensor.I64:
			values, err := f.Int64s(info.Name)
			if err != nil {
				t.Fatal(err)
			}
			contents = append(contents, weights.Of(info.Name, info.Shape, values))
		}
	}
	out := filepath.Join(t.TempDir(), "again")
	if err := Write(out, contents, f.Metadata()); err != nil {
		t.Fatal(err)
	}
	g, err := Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if len(g.Names()) != len(f.Names()) {
		t.Fatalf("%d tensors were written, want %d", len(g.Names()), len(f.Names()))
	}
	for _, info := range f.Tensors() {
		want, _ := f.Bytes(info.Name)
		if got, err := g.Bytes(info.Name); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what was read (%v)", info.Name, err)
		}
	}
}

// FuzzOpen: no file makes the reader panic or reach outside of the file, and every tensor of an accepted file can
// be read.
func FuzzOpen(f *testing.F) {
	f.Add(file(exampleHeader, exampleData))
	f.Add(file(`{}`, ""))
	f.Add(file(`{"a":{"dtype":"F4","shape":[2],"data_offsets":[0,1]}}`, "a"))
	f.Add(file(`{"a":{"dtype":"F16","shape":[],"data_offsets":[0,2]},"b":{"dtype":"I64","shape":[0],"data_offsets":[2,2]}}`, "ab"))
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := read(b)
		if err != nil {
			if !errors.Is(err, weights.ErrFormat) {
				t.Errorf("error %v does not wrap weights.ErrFormat", err)
			}
			return
		}
		total := int64(0)
		for _, info := range file.Tensors() {
			data, err := file.Bytes(info.Name)
			if err != nil || int64(len(data)) != info.ByteLen() {
				t.Errorf("%s: %d bytes, %v", info.Name, len(data), err)
			}
			total += info.ByteLen()
			if values, err := file.Float64s(info.Name); err == nil && len(values) != info.Shape.Len() {
				t.Errorf("%s: %d values of shape %v", info.Name, len(values), info.Shape)
			}
			if values, err := file.Int64s(info.Name); err == nil && len(values) != info.Shape.Len() {
				t.Errorf("%s: %d values of shape %v", info.Name, len(values), info.Shape)
			}
		}
		if header := int64(binary.LittleEndian.Uint64(b)); header+prefix+total != int64(len(b)) {
			t.Errorf("tensors of %d bytes and a header of %d in a file of %d", total, header, len(b))
		}
	})
}

// large makes a file whose tensor "a" has 16 GiB, which take no room, and opens it.
func large(t *testing.T) (f *weights.File, size int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "large")
	size = 1 << 34
	header := fmt.Sprintf(`{"a":{"dtype":"F32","shape":[%d],"data_offsets":[0,%d]}}`, size/4, size)
	if err := os.WriteFile(path, file(header, ""), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, int64(prefix+len(header)+size)); err != nil {
		t.Skipf("no sparse files here: %v", err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f, size
}

// allocated is what body allocates, in bytes.
func allocated(body func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	body()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestOpenIsLazy: opening a large file reads its header only.
func TestOpenIsLazy(t *testing.T) {
	if n := allocated(func() {
		f, size := large(t)
		if info, _ := f.Tensor("a"); info.Shape.Len() != size/4 {
			t.Errorf("a has shape %v", info.Shape)
		}
	}); n > 1<<20 {
		t.Errorf("%d bytes were allocated to open a file", n)
	}
}

package pytorch

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"harness.invalid/core/checkpoint/weights"
	"harness.invalid/core/tensor"
)

// quarters are what testdata/make.py calls values: n numbers from first in steps of 1/4.
func quarters(first float64, n int) []float64 {
	values := make([]float64, n)
	for i := range values {
		values[i] = first + float64(i)/4
	}
	return values
}

func at(values []float64, places ...int) []float64 {
	var out []float64
	for _, i := range places {
		out = append(out, values[i])
	}
	return out
}

func fixture(t *testing.T, name string) *weights.File {
	t.Helper()
	f, err := Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// TestTypes: every type and view of testdata/make.py, in both forms.
func TestTypes(t *testing.T) {
	base := quarters(-1, 24)
	floats := map[string]struct {
		dtype  tensor.DType
		shape  tensor.Shape
		values []float64
	}{
		"f64": {tensor.F64, tensor.Shape{3}, quarters(-1, 3)}, "f32": {tensor.F32, tensor.Shape{2, 3}, quarters(-1, 6)},
		"f16": {tensor.F16, tensor.Shape{3}, quarters(-1, 3)}, "bf16": {tensor.BF16, tensor.Shape{3}, quarters(-1, 3)},
		"scalar": {tensor.F32, tensor.Shape{}, []float64{2.5}}, "empty": {tensor.F32, tensor.Shape{0, 3}, []float64{}},
		"parameter": {tensor.F32, tensor.Shape{4}, quarters(-1, 4)}, "shared": {tensor.F32, tensor.Shape{4, 6}, base},
		"transposed": {tensor.F32, tensor.Shape{6, 4}, at(base, 0, 6, 12, 18, 1, 7, 13, 19, 2, 8, 14, 20, 3, 9, 15, 21, 4, 10, 16, 22, 5,
			11, 17, 23)},
		"part": {tensor.F32, tensor.Shape{2, 4}, base[6:14]}, "column": {tensor.F32, tensor.Shape{4}, at(base, 2, 8, 14, 20)},
	}
	whole := map[string][]int64{"i64": {-(1 << 62), 5}, "i32": {-5, 7}, "i16": {-5, 7}, "i8": {-5, 7}, "u8": {5, 250}, "bool": {1, 0}}
	for _, name := range []string{"types.bin", "types.legacy.bin"} {
		f := fixture(t, name)
		if n := len(f.Tensors()); n != len(floats)+len(whole) {
			t.Errorf("%s: %d tensors, want %d", name, n, len(floats)+len(whole))
		}
		for key, want := range floats {
			info, _ := f.Tensor(key)
			got, err := f.Float64s(key)
			if err != nil || info.DType != want.dtype || !slices.Equal(info.Shape, want.shape) || !slices.Equal(got, want.values) {
				t.Errorf("%s: %s is %s %v %v, %v, want %v", name, key, info.DType, info.Shape, got, err, want)
			}
		}
		for key, want := range whole {
			if got, err := f.Int64s(key); err != nil || !slices.Equal(got, want) {
				t.Errorf("%s: %s is %v, %v, want %v", name, key, got, err, want)
			}
		}
	}
}

// TestTraining: a model in a training checkpoint, with tied tensors, an optimizer's state and counters.
func TestTraining(t *testing.T) {
	for _, name := range []string{"training.bin", "training.legacy.bin"} {
		f := fixture(t, name)
		want := []string{"model/embedding.weight", "model/decoder.weight", "model/decoder.bias", "model/position_ids"}
		for _, p := range []string{"0", "1"} {
			for _, slot := range []string{"step", "exp_avg", "exp_avg_sq"} {
				want = append(want, "optimizer/state/"+p+"/"+slot)
			}
		}
		slices.Sort(want)
		got := f.Names()
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		a, _ := f.Tensor("model/embedding.weight")
		b, _ := f.Tensor("model/decoder.weight")
		if a.Offset() != b.Offset() {
			t.Errorf("%s: tied tensors lie at %d and %d, want one place", name, a.Offset(), b.Offset())
		}
		for key, want := range map[string]string{"epoch": "3", "loss": "0.5", "note": "Ü", "done": "false", "ids/1/0": "2",
			"optimizer/param_groups/0/lr": "0.125"} {
			if got := f.Metadata()[key]; got != want {
				t.Errorf("%s: %s is %q, want %q", name, key, got, want)
			}
		}
		// Adam's first step: (1-β1)·g, and every gradient of the bias is 2.
		if got, err := f.Float32s("optimizer/state/1/exp_avg"); err != nil || len(got) != 5 || got[0] < 0.1999 || got[0] > 0.2001 {
			t.Errorf("%s: exp_avg is %v, %v", name, got, err)
		}
	}
}

// TestWrite: a file reads back the same, has the same bytes each time, and has its data where PyTorch would put them.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	contents := []weights.Content{
		weights.Of("a", tensor.Shape{2, 3}, []float32{1, 2, 3, 4, 5, 6}), weights.Of("half", tensor.Shape{2}, []float32{1, -2}).As(tensor.F16),
		weights.Of("brain", tensor.Shape{2}, []float32{1, -2}).As(tensor.BF16), weights.Of("scalar", nil, []float64{3}),
		weights.Of("empty", tensor.Shape{0, 3}, []float32{}), weights.Of("ids", tensor.Shape{1, 3},
			[]int64{1, -2, 1 << 40}), weights.Of("bytes", tensor.Shape{1}, []uint8{7}),
	}
	paths := []string{filepath.Join(dir, "one.bin"), filepath.Join(dir, "two.bin")}
	for _, path := range paths {
		if err := Write(path, contents, map[string]string{"tied": "a"}); err != nil {
			t.Fatal(err)
		}
	}
	one, _ := os.ReadFile(paths[0])
	if two, err := os.ReadFile(paths[1]); err != nil || !bytes.Equal(one, two) {
		t.Errorf("two files of the same contents differ (%v)", err)
	}
	f, err := Open(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if want := []string{"a", "tied", "half", "brain", "scalar", "empty", "ids", "bytes"}; !slices.Equal(f.Names(), want) {
		t.Errorf("names are %v, want %v", f.Names(), want)
	}
	for _, c := range contents {
		info, _ := f.Tensor(c.Name)
		var want bytes.Buffer
		if _, err := c.WriteTo(&want); err != nil {
			t.Fatal(err)
		}
		got, err := f.Bytes(c.Name)
		if err != nil || !bytes.Equal(got, want.Bytes()) || info.DType != c.DType || info.Offset()%align != 0 {
			t.Errorf("%s is %s %v at byte %d, %v", c.Name, info.DType, got, info.Offset(), err)
		}
	}
	if err := Write(paths[0], []weights.Content{contents[0], contents[0]}, nil); err == nil ||
		!strings.Contains(err.Error(), "two tensors are named a") {
		t.Errorf("error is %v", err)
	}
	if after, err := os.ReadFile(paths[0]); err != nil || !bytes.Equal(after, one) {
		t.Error("a write that failed changed the file")
	}
	// Without PyTorch, its own reader's rule for where data begin: behind the local header, which says how long it is.
	z, err := zip.OpenReader(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	for _, f := range z.File {
		if n, err := f.DataOffset(); err != nil || n%align != 0 {
			t.Errorf("%s begins at %d (%v), want a multiple of %d", f.Name, n, err, align)
		}
	}
}

// TestAgainstPyTorch lets torch.load read what was written here.
func TestAgainstPyTorch(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Python")
	}
	const python = "/usr/bin/python3" // Debian's python3-torch is installed for this one
	if err := exec.Command(python, "-c", "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)").Run(); err != nil {
		t.Skip("no PyTorch here: ", err)
	}
	path := filepath.Join(t.TempDir(), "m.bin")
	err := Write(path, []weights.Content{
		weights.Of("a", tensor.Shape{2, 3}, []float32{1, 2, 3, 4, 5, 6}), weights.Of("half", tensor.Shape{2}, []float32{1, -2}).As(tensor.F16),
		weights.Of("brain", tensor.Shape{1, 2}, []float32{1, -2}).As(tensor.BF16), weights.Of("scalar", nil, []float64{3}),
		weights.Of("ids", tensor.Shape{1, 3}, []int64{1, -2, 1 << 40}), weights.Of("empty", tensor.Shape{0, 3}, []float32{}),
	}, map[string]string{"tied": "a"})
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(python, "-c", `
import sys, torch
d = torch.load(sys.argv[1])
print(type(d).__name__)
for k, v in d.items():
    print(k, v.dtype, tuple(v.shape), v.tolist())
print(d["tied"].data_ptr() == d["a"].data_ptr())
`, path).CombinedOutput()
	want := `OrderedDict
a torch.float32 (2, 3) [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
tied torch.float32 (2, 3) [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
half torch.float16 (2,) [1.0, -2.0]
brain torch.bfloat16 (1, 2) [[1.0, -2.0]]
scalar torch.float64 () 3.0
ids torch.int64 (1, 3) [[1, -2, 1099511627776]]
empty torch.float32 (0, 3) []
True
`
	if diff := cmp.Diff(want, string(out)); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

// TestLong reads numbers in two's complement of any length.
func TestLong(t *testing.T) {
	for _, v := range []int64{0, 1, -1, 127, 128, -128, -129, 1 << 40, -(1 << 62)} {
		for n := 1; n <= 8; n++ {
			if n < 8 && (v >= 1<<(8*n-1) || v < -1<<(8*n-1)) {
				continue
			}
			if got := twosComplement(binary.LittleEndian.AppendUint64(nil, uint64(v))[:n]); got != v {
				t.Errorf("%d in %d bytes is read as %v", v, n, got)
			}
		}
	}
}

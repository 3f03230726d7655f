package pytorch

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
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

// TestRefuseCode: what wants to be called is named, and nothing is called.
func TestRefuseCode(t *testing.T) {
	for name, want := range map[string]string{"evil.bin": "posix.system", "evil.legacy.bin": "posix.system", "module.bin": "__main__.Head"} {
		f, err := Open(filepath.Join("testdata", name))
		if err == nil {
			f.Close()
		}
		if !errors.Is(err, weights.ErrFormat) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "byte ") {
			t.Errorf("%s: error is %v, want one that names %s", name, err, want)
		}
	}
	if _, err := os.Stat("/tmp/harness-was-here"); err == nil {
		t.Error("code of a fixture was run")
	}
}

func read(b []byte) (*weights.File, error) {
	return open(weights.NewPart(bytes.NewReader(b), int64(len(b)), "m.bin"))
}

// TestTruncated: a file that was cut anywhere is refused.
func TestTruncated(t *testing.T) {
	for _, name := range []string{"types.bin", "types.legacy.bin", "training.legacy.bin"} {
		whole, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		for n := range whole {
			if _, err := read(whole[:n]); err == nil {
				t.Errorf("%s cut after %d bytes is taken", name, n)
			} else if n >= 4 && (!errors.Is(err, weights.ErrFormat) || !strings.Contains(err.Error(), "m.bin: byte ")) {
				t.Fatalf("%s cut after %d bytes: error is %v, want one with the byte", name, n, err)
			}
		}
	}
}

// TestChanged: the archive has sums of the data, and one changed byte is noticed when they are read, at the latest.
func TestChanged(t *testing.T) {
	whole, err := os.ReadFile("testdata/types.bin")
	if err != nil {
		t.Fatal(err)
	}
	f := fixture(t, "types.bin")
	info, _ := f.Tensor("f32")
	whole[info.Offset()+3] ^= 1
	g, err := read(whole)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Float32s("f32"); !errors.Is(err, weights.ErrFormat) ||
		!strings.Contains(err.Error(), fmt.Sprintf("byte %d: 24 bytes have the CRC-32", info.Offset())) {
		t.Errorf("error is %v, want that the sum differs", err)
	}
	if _, err := g.Float64s("f64"); err != nil {
		t.Errorf("a tensor that was not touched: %v", err)
	}
}

// legacy is a stream of pickles around a value, and what follows.
func legacy(value, keys, data string) []byte {
	facts := "\x80\x02}X\x0d\x00\x00\x00little_endian\x88s."
	return []byte("\x80\x02\x8a\x0a" + string(magicNumber) + ".\x80\x02M\xe9\x03." + facts + "\x80\x02" + value + ".\x80\x02" + keys + "." + data)
}

// storageOf is the code for a storage of floats with a key of one letter.
func storageOf(key string, n byte) string {
	return "(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x00" + key + "X\x03\x00\x00\x00cpuK" + string([]byte{n}) + "NtQ"
}

// TestRefuse: pickles that lie.
func TestRefuse(t *testing.T) {
	const rebuild = "ctorch._utils\n_rebuild_tensor_v2\n("
	one, keys, data := storageOf("a", 1), "]X\x01\x00\x00\x00aa", "\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80\x3f"
	dict := func(value string) string { return "}X\x01\x00\x00\x00w" + value + "s" }
	vector := func(offset, size, stride string) string {
		return dict(rebuild + one + offset + size + stride + "\x89NtR")
	}
	good := legacy(vector("K\x00", "K\x01\x85", "K\x01\x85"), keys, data)
	if f, err := read(good); err != nil {
		t.Fatal(err)
	} else if v, err := f.Float32s("w"); err != nil || !slices.Equal(v, []float32{1}) {
		t.Fatalf("%v, %v", v, err)
	}
	for name, test := range map[string]struct {
		file []byte
		want string
	}{
		"empty":               {nil, "EOF"},
		"text":                {[]byte("hello world"), `byte 0: file begins with "hell"`},
		"other magic":         {[]byte("\x80\x02K\x01."), "want the magic number"},
		"protocol 1":          {[]byte("\x80\x01K\x01."), "protocol 1, want 2 to 5"},
		"unknown instruction": {legacy("I1\n", keys, data), "instruction 0x49"},
		"text too long":       {legacy("X\xff\xff\xff\xffabc", keys, data), "4294967295 bytes follow"},
		"bytes too long":      {legacy("\x8e\xff\xff\xff\xff\xff\xff\xff\xff", keys, data), "bytes follow, but"},
		"stack is empty":      {legacy("R", keys, data), "2 values are wanted, 0 are there"},
		"no mark":             {legacy("t", keys, data), "no mark is there"},
		"memo":                {legacy("h\x07", keys, data), "value 7 is used before"},
		"call a number":       {legacy("K\x01)R", keys, data), "1 is called with"},
		"import":              {legacy("cos\nsystem\n", keys, data), `Python's "os.system"`},
		"stack global":        {legacy("\x8c\x02os\x8c\x06system\x93", keys, data), `Python's "os.system"`},
		"list holds itself":   {legacy("]q\x00h\x00a", "]", ""), "holds itself"},
		"key is a list":       {legacy("}]K\x01s", "]", ""), "as a key"},
		"storage too long": {legacy(dict(strings.Replace(rebuild+one+"K\x00)))\x89NtR", "K\x01NtQ", "J\xff\xff\xff\x7fNtQ", 1)), keys,
			data), "length 2147483647 in a file of"},
		"negative length": {legacy(dict(strings.Replace(rebuild+one+"K\x00)))\x89NtR", "K\x01NtQ", "J\xff\xff\xff\xffNtQ", 1)), keys,
			data), "length -1"},
		"shape too large":  {legacy(vector("K\x00", "K\x02\x85", "K\x00\x85"), keys, data), "has more elements than its storage"},
		"stride too large": {legacy(vector("K\x00", "K\x01K\x01\x86", "K\x01\x85"), keys, data), "has the strides [1]"},
		"offset too large": {legacy(vector("K\x02", "K\x01\x85", "K\x01\x85"), keys, data), "begins at 2 of a storage of 1"},
		"negative extent":  {legacy(vector("K\x00", "J\xff\xff\xff\xff\x85", "K\x01\x85"), keys, data), "whole numbers of at least 0"},
		"overflow": {legacy(vector("K\x00",
			"\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f\x86", "K\x01K\x01\x86"), keys, data),
			"too many elements"},
		"no such key":      {legacy(vector("K\x00", "K\x01\x85", "K\x01\x85"), "]X\x01\x00\x00\x00ba", data), `storage "b" is not used`},
		"fewer keys":       {legacy(vector("K\x00", "K\x01\x85", "K\x01\x85"), "]", data), "want a list of 1"},
		"length differs":   {legacy(vector("K\x00", "K\x01\x85", "K\x01\x85"), keys, "\x02"+data[1:]+data[8:]), "has 2 elements, want 1"},
		"bytes at the end": {append(slices.Clone(good), 0), "1 bytes follow the last storage"},
		"name twice":       {legacy("}X\x01\x00\x00\x00w"+rebuild+one+"K\x00K\x01\x85K\x01\x85\x89NtRsX\x01\x00\x00\x00w"+rebuild+one+"K\x00K\x01\x85K\x01\x85\x89NtRs", keys, data), "already"},
	} {
		_, err := read(test.file)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error is %v, want %q in it", name, err, test.want)
		} else if len(test.file) > 0 && !errors.Is(err, weights.ErrFormat) {
			t.Errorf("%s: error %v does not wrap ErrFormat", name, err)
		}
	}
	// References that unfold into more than anyone can hold: a list of two lists of two lists ...
	bomb := "]"
	for i := range byte(80) {
		bomb += "q" + string([]byte{i}) + "0](h" + string([]byte{i}) + "h" + string([]byte{i}) + "e"
	}
	if _, err := read(legacy(bomb, "]", "")); err == nil || !strings.Contains(err.Error(), "instructions and items") {
		t.Errorf("error is %v, want that it is too much", err)
	}
}

// TestRefuseArchive: archives that lie.
func TestRefuseArchive(t *testing.T) {
	contents := []weights.Content{weights.Of("w", tensor.Shape{2}, []float32{1, 2})}
	pickle, err := dump(contents, nil)
	if err != nil {
		t.Fatal(err)
	}
	archive := func(files ...any) []byte {
		var b bytes.Buffer
		z := zip.NewWriter(&b)
		for i := 0; i < len(files); i += 2 {
			name, method := files[i].(string), zip.Store
			if rest, ok := strings.CutPrefix(name, "deflate:"); ok {
				name, method = rest, zip.Deflate
			}
			w, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: method})
			if err != nil {
				t.Fatal(err)
			}
			switch text := files[i+1].(type) {
			case string:
				w.Write([]byte(text))
			case []byte:
				w.Write(text)
			}
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	if f, err := read(archive("a/data.pkl", pickle, "a/data/0", "\x00\x00\x80\x3f\x00\x00\x00\x40")); err != nil {
		t.Fatal(err)
	} else if v, err := f.Float32s("w"); err != nil || !slices.Equal(v, []float32{1, 2}) {
		t.Fatalf("%v, %v", v, err)
	}
	for want, file := range map[string][]byte{
		"without data.pkl":                archive("a/b", ""),
		`storage "0" has no file`:         archive("a/data.pkl", pickle),
		`storage "0" has 4 bytes, want 8`: archive("a/data.pkl", pickle, "a/data/0", "1234"),
		`"a/data/0" is compressed`:        archive("a/data.pkl", pickle, "deflate:a/data/0", "12345678"),
		`"a/data.pkl" is compressed`:      archive("deflate:a/data.pkl", pickle, "a/data/0", "12345678"),
		`is in it twice`:                  archive("a/data.pkl", pickle, "a/data/0", "12345678", "a/data/0", "12345678"),
		`byte order is "big"`:             archive("a/data.pkl", pickle, "a/byteorder", "big", "a/data/0", "12345678"),
		`1 bytes follow the pickle`:       archive("a/data.pkl", string(pickle)+"x", "a/data/0", "12345678"),
	} {
		if _, err := read(file); !errors.Is(err, weights.ErrFormat) || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want %q in it", err, want)
		}
	}
}

// TestOverlap: a directory that has two storages at one place.
func TestOverlap(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.bin")
	values := []float32{1, 2}
	if err := Write(path, []weights.Content{weights.Of("a", tensor.Shape{2}, values), weights.Of("b", tensor.Shape{2}, values)},
		nil); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// A file's record in the directory ends with where its local header lies, 4 bytes, and its name.
	place := func(name string) []byte {
		at := bytes.LastIndex(b, []byte(name))
		return b[at-4 : at]
	}
	copy(place("archive/data/1"), place("archive/data/0"))
	if _, err := read(b); !errors.Is(err, weights.ErrFormat) || !strings.Contains(err.Error(), `storage "1" overlaps with storage "0"`) {
		t.Errorf("error is %v, want that storages overlap", err)
	}
}

// TestWrite: what is written is read back, twice the same bytes, with data where PyTorch would put them.
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

// FuzzOpen: no file makes the reader panic, run for long, or reach outside of the file, and every tensor of an
// accepted file can be read or has a sum that is wrong.
func FuzzOpen(f *testing.F) {
	for _, name := range []string{"types.bin", "types.legacy.bin", "training.bin", "training.legacy.bin", "evil.bin",
		"evil.legacy.bin", "module.bin"} {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add(legacy("]q\x00h\x00a", "]", ""))
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := read(b)
		if err != nil {
			if len(b) > 0 && !errors.Is(err, weights.ErrFormat) {
				t.Errorf("error %v does not wrap ErrFormat", err)
			}
			return
		}
		for _, info := range file.Tensors() {
			data, err := info.Bytes()
			if err != nil && !errors.Is(err, weights.ErrFormat) || err == nil && int64(len(data)) != info.ByteLen() {
				t.Errorf("%s: %d bytes, %v", info.Name, len(data), err)
			}
		}
	})
}

// TestLong reads numbers in two's complement of any length.
func TestLong(t *testing.T) {
	for _, v := range []int64{0, 1, -1, 127, 128, -128, -129, 1 << 40, -(1 << 62)} {
		for n := 1; n <= 8; n++ {
			if n < 8 && (v >= 1<<(8*n-1) || v < -1<<(8*n-1)) {
				continue
			}
			if got := long(binary.LittleEndian.AppendUint64(nil, uint64(v))[:n]); got != v {
				t.Errorf("%d in %d bytes is read as %v", v, n, got)
			}
		}
	}
}

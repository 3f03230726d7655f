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
	exampleHeader = `{"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[1,3],"data_offsets":[8,11]}}`
	exampleData   = "\x00\x00\x80\x3f\x00\x00\x00\xc0xyz"
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

func TestRefuse(t *testing.T) {
	tensorA := func(body string) []byte { return file(`{"a":{`+body+`}}`, exampleData) }
	huge := file(exampleHeader, exampleData)
	binary.LittleEndian.PutUint64(huge, MaxHeader+1)
	past := file(exampleHeader, exampleData)
	binary.LittleEndian.PutUint64(past, uint64(len(past)-prefix+1))
	negative := file(exampleHeader, exampleData)
	binary.LittleEndian.PutUint64(negative, math.MaxUint64)
	for name, test := range map[string]struct {
		file []byte
		want string
	}{
		"empty":               {nil, "byte 0: file ends after 0 bytes"},
		"seven bytes":         {make([]byte, 7), "byte 7: file ends after 7 bytes"},
		"empty header":        {make([]byte, 8), "want { as the first byte"},
		"header too long":     {huge, "header of 100000001 bytes, want at most 100000000"},
		"header past the end": {past, "in a file of"},
		"length of -1":        {negative, "want at most 100000000"},
		"leading space":       {file(" "+exampleHeader, exampleData), "want { as the first byte"},
		"not UTF-8":           {file("{\"\xff\":1}", ""), "byte 10: header is not UTF-8"},
		"second object":       {file(exampleHeader+"{}", exampleData), "more than white space follows"},
		"broken JSON":         {file(`{"a":{"dtype"`, ""), "header:"},
		"name twice":          {file(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, "ab"), `name "a" occurs twice`},
		"escaped name twice":  {file(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"\u0061":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, "ab"), `name "a" occurs twice`},
		"metadata twice":      {file(`{"__metadata__":{},"__metadata__":{}}`, ""), "occurs twice"},
		"metadata key twice":  {file(`{"__metadata__":{"a":"1","a":"2"}}`, ""), `has the key "a" twice`},
		"metadata of numbers": {file(`{"__metadata__":{"a":1}}`, ""), "want a string"},
		"unknown type": {tensorA(`"dtype":"F128","shape":[2],"data_offsets":[0,11]`),
			"byte 28: header: tensor \"a\": dtype F128 is not known"},
		"type of a number":  {tensorA(`"dtype":7,"shape":[2],"data_offsets":[0,11]`), "dtype 7 is not known"},
		"unknown key":       {tensorA(`"dtype":"U8","strides":[2]`), `has the key "strides"`},
		"key twice":         {tensorA(`"dtype":"U8","dtype":"U8"`), `has the key "dtype" twice`},
		"no shape":          {tensorA(`"dtype":"U8","data_offsets":[0,11]`), "has no shape"},
		"negative extent":   {tensorA(`"dtype":"U8","shape":[-11],"data_offsets":[0,11]`), "want whole numbers of at least 0"},
		"fractional extent": {tensorA(`"dtype":"U8","shape":[1e1],"data_offsets":[0,11]`), "want whole numbers of at least 0"},
		"text as extent":    {tensorA(`"dtype":"U8","shape":["11"],"data_offsets":[0,11]`), "want whole numbers of at least 0"},
		"overflow":          {tensorA(`"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,11]`), "too many elements"},
		"overflow behind 0": {tensorA(`"dtype":"F64","shape":[4611686018427387904],"data_offsets":[0,11]`), "too many elements"},
		"half a byte":       {tensorA(`"dtype":"F4","shape":[3],"data_offsets":[0,11]`), "does not fill whole bytes"},
		"shape lies":        {tensorA(`"dtype":"U8","shape":[12],"data_offsets":[0,11]`), "11 bytes at data_offsets [0 11], want 12"},
		"offsets reversed":  {tensorA(`"dtype":"U8","shape":[0],"data_offsets":[11,0]`), "want begin and end"},
		"one offset":        {tensorA(`"dtype":"U8","shape":[11],"data_offsets":[11]`), "want begin and end"},
		"hole at the start": {tensorA(`"dtype":"U8","shape":[10],"data_offsets":[1,11]`), "leaves a hole after what ends at 0"},
		"bytes at the end":  {tensorA(`"dtype":"U8","shape":[10],"data_offsets":[0,10]`), "tensors take "},
		"past the end":      {tensorA(`"dtype":"U8","shape":[12],"data_offsets":[0,12]`), "tensors take "},
		"overlap":           {file(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}`, "abc"), `data of "b" begins at 1 of the buffer and overlaps`},
		"same bytes":        {file(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}`, "ab"), "overlaps"},
		"end at the limit": {tensorA(`"dtype":"U8","shape":[9223372036854775807],"data_offsets":[0,9223372036854775807]`),
			"too many elements"},
	} {
		f, err := read(test.file)
		if err == nil {
			t.Errorf("%s: no error, tensors %v", name, f.Tensors())
			continue
		}
		if !errors.Is(err, weights.ErrFormat) || !strings.HasPrefix(err.Error(), "m.safetensors: byte ") ||
			!strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error is %q, want %q in it", name, err, test.want)
		}
	}
}

// TestTruncated: a file that was cut anywhere is refused, through a mapping and through a reader.
func TestTruncated(t *testing.T) {
	whole := file(exampleHeader, exampleData)
	path := filepath.Join(t.TempDir(), "cut")
	for n := range whole {
		if _, err := read(whole[:n]); !errors.Is(err, weights.ErrFormat) {
			t.Errorf("cut after %d bytes: error is %v, want weights.ErrFormat", n, err)
		}
		if err := os.WriteFile(path, whole[:n], 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path); !errors.Is(err, weights.ErrFormat) {
			t.Errorf("file cut after %d bytes: error is %v, want weights.ErrFormat", n, err)
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

func TestWriteRefuses(t *testing.T) {
	a := weights.Of("a", tensor.Shape{1}, []float32{1})
	for name, test := range map[string]struct {
		contents []weights.Content
		want     string
	}{
		"name twice":    {[]weights.Content{a, a}, "two tensors are named a"},
		"reserved name": {[]weights.Content{weights.Of("__metadata__", nil, []float32{1})}, "reserved"},
		"name not text": {[]weights.Content{weights.Of("\xff", nil, []float32{1})}, "not UTF-8"},
		"wrong length":  {[]weights.Content{weights.Of("a", tensor.Shape{2}, []float32{1})}, "has 1 values, want 2 for shape [2]"},
		"negative":      {[]weights.Content{weights.Of("a", tensor.Shape{-1}, []float32{1})}, "want extents of at least 0"},
		"wrong type":    {[]weights.Content{weights.Of("a", tensor.Shape{1}, []int64{1}).As(tensor.F16)}, "[]int64 can't be stored as \"F16\""},
		"unknown type":  {[]weights.Content{a.As("F32X")}, "can't be stored"},
	} {
		path := filepath.Join(t.TempDir(), "x")
		err := Write(path, test.contents, nil)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error is %v, want %q", name, err, test.want)
		}
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s: a file was left", name)
		}
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
	for _, name := range []string{"bert/pretraining_tanh.safetensors", "bert/tribuo-tinybert/model.safetensors", "optimizers.safetensors"} {
		path := reference.Path(t, "golden", filepath.FromSlash(name))
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
			t.Fatalf("%s: %d tensors were written, want %d", name, len(g.Names()), len(f.Names()))
		}
		for _, info := range f.Tensors() {
			want, _ := f.Bytes(info.Name)
			if got, err := g.Bytes(info.Name); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: %s is not what was read (%v)", name, info.Name, err)
			}
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

// TestOpenIsLazy: opening a large file reads its header only, and a mapped tensor is no copy.
func TestOpenIsLazy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "large")
	const size = 1 << 34 // a sparse file: 16 GiB that take no room
	header := fmt.Sprintf(`{"a":{"dtype":"F32","shape":[%d],"data_offsets":[0,%d]}}`, size/4, size)
	if err := os.WriteFile(path, file(header, ""), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, int64(prefix+len(header)+size)); err != nil {
		t.Skipf("no sparse files here: %v", err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if info, _ := f.Tensor("a"); info.Shape.Len() != size/4 {
		t.Errorf("a has shape %v", info.Shape)
	}
	if runtime.GOOS != "linux" {
		return
	}
	data, err := f.Bytes("a")
	if err != nil || len(data) != size || data[0] != 0 || data[size-1] != 0 {
		t.Fatalf("%d bytes are mapped, want %d: %v", len(data), size, err)
	}
	if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > 1<<20 {
		t.Errorf("%d bytes were allocated for a mapped file", after.TotalAlloc-before.TotalAlloc)
	}
}

package pytorch

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"harness.invalid/core/checkpoint/weights"
	"harness.invalid/core/tensor"
)

// TestRefuseCode: a file that would call code is refused. The error names the function, and nothing is called.
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
	return []byte("\x80\x02\x8a\x0a" + string(magicNumber) + ".\x80\x02M\xe9\x03." + facts +
		"\x80\x02" + value + "." +
		"\x80\x02" + keys + "." + data)
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
	storageLength := func(number string) string {
		return dict(strings.Replace(rebuild+one+"K\x00)))\x89NtR", "K\x01NtQ", number+"NtQ", 1))
	}
	const largest = "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f"
	item := "X\x01\x00\x00\x00w" + rebuild + one + "K\x00K\x01\x85K\x01\x85\x89NtRs"
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
		"list holds itself":   {legacy("]q\x00h\x00a", "]", ""), "contains itself"},
		"key is a list":       {legacy("}]K\x01s", "]", ""), "as a key"},
		"storage too long":    {legacy(storageLength("J\xff\xff\xff\x7f"), keys, data), "length 2147483647 in a file of"},
		"negative length":     {legacy(storageLength("J\xff\xff\xff\xff"), keys, data), "length -1"},
		"shape too large":     {legacy(vector("K\x00", "K\x02\x85", "K\x00\x85"), keys, data), "has more elements than its storage"},
		"stride too large":    {legacy(vector("K\x00", "K\x01K\x01\x86", "K\x01\x85"), keys, data), "has the strides [1]"},
		"offset too large":    {legacy(vector("K\x02", "K\x01\x85", "K\x01\x85"), keys, data), "begins at 2 of a storage of 1"},
		"negative extent":     {legacy(vector("K\x00", "J\xff\xff\xff\xff\x85", "K\x01\x85"), keys, data), "whole numbers of at least 0"},
		"overflow":            {legacy(vector("K\x00", largest+largest+"\x86", "K\x01K\x01\x86"), keys, data), "too many elements"},
		"no such key":         {legacy(vector("K\x00", "K\x01\x85", "K\x01\x85"), "]X\x01\x00\x00\x00ba", data), `storage "b" is not used`},
		"fewer keys":          {legacy(vector("K\x00", "K\x01\x85", "K\x01\x85"), "]", data), "want a list of 1"},
		"length differs":      {legacy(vector("K\x00", "K\x01\x85", "K\x01\x85"), keys, "\x02"+data[1:]+data[8:]), "has 2 elements, want 1"},
		"bytes at the end":    {append(slices.Clone(good), 0), "1 bytes follow the last storage"},
		"name twice":          {legacy("}"+item+item, keys, data), "already"},
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

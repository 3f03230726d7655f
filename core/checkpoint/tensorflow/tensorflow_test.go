package tensorflow

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/snappy"
	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"

	"harness.invalid/core/checkpoint/weights"
	"harness.invalid/core/internal/reference"
	"harness.invalid/core/tensor"
)

// TestAgainstTensorFlow reads a checkpoint that TensorFlow's Saver wrote, checks all of its sums, and writes the
// same two files again to the last bit.
func TestAgainstTensorFlow(t *testing.T) {
	dir := reference.PathOrExcerpt(t, "data", "weights", "keras-bert-tf-ckpt")
	f, err := Open(filepath.Join(dir, "bert_model.ckpt"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var contents []weights.Content
	for _, info := range f.Tensors() {
		if _, err := info.Bytes(); err != nil {
			t.Error(err)
		}
		contents = append(contents, info.Content())
	}
	// 46 parameters of a BERT with two layers and pre-training heads, two slots of each, and the step.
	if want := 46*3 + 1; len(contents) != want {
		t.Errorf("%d tensors, want %d", len(contents), want)
	}
	if step, err := f.Int64s("global_step"); err != nil || len(step) != 1 {
		t.Errorf("global_step is %v, %v", step, err)
	}
	if info, _ := f.Tensor("bert/encoder/layer_0/intermediate/dense/kernel/adam_v"); info.DType != tensor.F32 ||
		!slices.Equal(info.Shape, tensor.Shape{4, 16}) {
		t.Errorf("slot of a kernel is %s %v", info.DType, info.Shape)
	}
	slices.Reverse(contents)
	prefix := filepath.Join(t.TempDir(), "again")
	if err := Write(prefix, contents); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{".index", ".data-00000-of-00001"} {
		want, err := os.ReadFile(filepath.Join(dir, "bert_model.ckpt"+suffix))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(prefix + suffix); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not TensorFlow's (%v)", suffix, err)
		}
	}
}

// TestWriteAndOpen: all types, a scalar and an empty tensor, and more names than one block holds.
func TestWriteAndOpen(t *testing.T) {
	contents := []weights.Content{
		weights.Of("f32", tensor.Shape{2, 2}, []float32{1, 2, 3, 4}), weights.Of("f16", tensor.Shape{2}, []float32{1, -2}).As(tensor.F16),
		weights.Of("bf16", tensor.Shape{2}, []float32{1, -2}).As(tensor.BF16), weights.Of("f64", nil, []float64{math.Pi}),
		weights.Of("i64", tensor.Shape{1}, []int64{-5}), weights.Of("i32", tensor.Shape{1}, []int32{-5}), weights.Of("u8",
			tensor.Shape{1}, []uint8{5}),
		weights.Of("bool", tensor.Shape{2}, []uint8{0, 1}).As(tensor.Bool), weights.Of("empty", tensor.Shape{0, 4}, []float32{}),
	}
	for i := range 6000 {
		contents = append(contents, weights.Of(fmt.Sprintf("bert/%d/%s", i*7919%6000, strings.Repeat("x", i%97)), tensor.Shape{1},
			[]int32{int32(i)}))
	}
	prefix := filepath.Join(t.TempDir(), "m.ckpt")
	if err := Write(prefix, contents); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(prefix + IndexSuffix); err != nil || info.Size() < blockSize+1000 {
		t.Fatalf("index of %v bytes (%v): want more than one block", info.Size(), err)
	}
	for _, path := range []string{prefix, prefix + ".index", prefix + ".data-00000-of-00001", prefix + ".meta"} {
		f, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(f.Tensors()); n != len(contents) {
			t.Fatalf("%d tensors, want %d", n, len(contents))
		}
		for _, c := range contents {
			var want bytes.Buffer
			if _, err := c.WriteTo(&want); err != nil {
				t.Fatal(err)
			}
			info, _ := f.Tensor(c.Name)
			if got, err := f.Bytes(c.Name); err != nil || !bytes.Equal(got, want.Bytes()) || info.DType != c.DType ||
				!slices.Equal(info.Shape, append(tensor.Shape{}, c.Shape...)) {
				t.Fatalf("%s is %s %v %v, %v", c.Name, info.DType, info.Shape, got, err)
			}
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	for want, bad := range map[string][]weights.Content{
		"two tensors are named f32": {contents[0], contents[0]},
		"want a name of 1 to":       {weights.Of("", nil, []float32{1})},
		"TensorFlow has no type":    {weights.Of("a", tensor.Shape{1}, []float32{1}).As("F8_E4M3")},
		"has 1 values, want 2":      {weights.Of("a", tensor.Shape{2}, []float32{1})},
	} {
		err := Write(prefix, bad)
		if err == nil || !strings.Contains(err.Error(), want) && !strings.Contains(err.Error(), "can't be stored") {
			t.Errorf("error is %v, want %s", err, want)
		}
	}
	if f, err := Open(prefix); err != nil {
		t.Errorf("a write that was refused left a damaged checkpoint: %v", err)
	} else {
		f.Close()
	}
	if _, err := Open(filepath.Join(filepath.Dir(prefix), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error is %v", err)
	}
	if err := os.Rename(prefix+".data-00000-of-00001", prefix+".data"); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(prefix); err == nil || !strings.Contains(err.Error(), "shard 0 of 1 is missing") {
		t.Errorf("error is %v, want that the shard is missing", err)
	}
}

// read opens a checkpoint of one shard in memory.
func read(index, data []byte) (*weights.File, error) {
	p := weights.NewPart(bytes.NewReader(index), int64(len(index)), "m.index")
	return open("m", p, func(uint64, uint64) (*weights.Part, error) {
		return weights.NewPart(bytes.NewReader(data), int64(len(data)), "m.data"), nil
	})
}

// indexOf writes rows as they are. The first is the header, unless it has another key.
func indexOf(t testing.TB, rows ...row) []byte {
	t.Helper()
	var b bytes.Buffer
	w := newTableWriter(&b)
	for _, r := range rows {
		if err := w.put(r.key, r.value); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// entryOf is the row of a tensor of two float32 values at an offset, with further fields.
func entryOf(name string, offset int64, more ...byte) row {
	c := weights.Of(name, tensor.Shape{2}, []float32{1, 2})
	return row{key: name, value: append(appendEntry(c, offset, 8, mask(crc32.Checksum(data[offset:offset+8], castagnoli))), more...)}
}

var data = []byte("\x00\x00\x80\x3f\x00\x00\x00\x40\x00\x00\x80\x3f\x00\x00\x00\x40")

func TestRefuse(t *testing.T) {
	head := row{value: header()}
	good := indexOf(t, head, entryOf("a", 0), entryOf("b", 8))
	f, err := read(good, data)
	if err != nil {
		t.Fatal(err)
	}
	if v, err := f.Float32s("b"); err != nil || !slices.Equal(v, []float32{1, 2}) {
		t.Fatalf("%v, %v", v, err)
	}
	number := func(n protowire.Number, v uint64) []byte { return appendNumber(nil, n, v) }
	for name, test := range map[string]struct {
		index []byte
		want  string
	}{
		"empty":           {nil, "m.index: byte 0: file ends after 0 bytes"},
		"other magic":     {append(slices.Clone(good[:len(good)-1]), 0), "not the index of a TensorFlow checkpoint"},
		"no rows":         {indexOf(t), "index has no header"},
		"no header":       {indexOf(t, entryOf("a", 0)), "index has no header"},
		"no shards":       {indexOf(t, row{value: []byte{}}), "0 shards, want 1 to"},
		"many shards":     {indexOf(t, row{value: number(1, 1<<40)}), "1099511627776 shards"},
		"big-endian":      {indexOf(t, row{value: append(header(), number(2, 1)...)}), "big-endian"},
		"header cut":      {indexOf(t, row{value: []byte{8}}), "header:"},
		"not sorted":      {indexOf(t, head, entryOf("b", 8), entryOf("a", 0)), `name "a" follows "b"`},
		"name twice":      {indexOf(t, head, entryOf("a", 0), entryOf("a", 0)), "a name occurs twice"},
		"overlap":         {indexOf(t, head, entryOf("a", 0), entryOf("b", 4)), `m.data: byte 4: tensor "b" overlaps with tensor "a"`},
		"past the end":    {indexOf(t, head, entryOf("a", 0, number(4, 9)...)), "ends behind the file's 16"},
		"negative offset": {indexOf(t, head, entryOf("a", 0, number(4, math.MaxUint64)...)), "is at -1"},
		"size lies":       {indexOf(t, head, entryOf("a", 0, number(5, 12)...)), "has 12 bytes, want 8"},
		"other shard":     {indexOf(t, head, entryOf("a", 0, number(3, 1)...)), "in shard 1 of 1"},
		"unknown type":    {indexOf(t, head, entryOf("a", 0, number(1, 99)...)), "is of type 99"},
		"sliced": {indexOf(t, head, entryOf("a", 0,
			protowire.AppendBytes(protowire.AppendTag(nil, 7, protowire.BytesType), nil)...)), "stored in slices"},
		"negative extent": {indexOf(t, head, entryOf("a", 0, 18, 13, 18, 11, 8, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1)), "extent -1"},
		"overflow": {indexOf(t, head, entryOf("a", 0, 18, 12, 18, 10, 8, 255, 255, 255, 255, 255, 255, 255, 255, 127)),
			"too many elements"},
		"unknown shape":    {indexOf(t, head, entryOf("a", 0, 18, 2, 24, 1)), "shape is not known"},
		"entry cut":        {indexOf(t, head, entryOf("a", 0, 8)), `tensor "a":`},
		"sum of the index": {append([]byte{good[0] ^ 1}, good[1:]...), "byte 0: block of"},
	} {
		_, err := read(test.index, data)
		if !errors.Is(err, weights.ErrFormat) || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), ": byte ") {
			t.Errorf("%s: error is %v, want %q in it", name, err, test.want)
		}
	}
	// Text is told of and left.
	if f, err := read(indexOf(t, head, entryOf("a", 0), row{key: "graph", value: append(number(1, textType), number(5, 9)...)}),
		data); err != nil || len(f.Tensors()) != 1 || f.Metadata()["graph"] == "" {
		t.Errorf("text: %v", err)
	}
	// Changed data are noticed when they are read.
	if f, err = read(good, append([]byte{1}, data[1:]...)); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Float32s("a"); !errors.Is(err, weights.ErrFormat) || !strings.Contains(err.Error(),
		"m.data: byte 0: 8 bytes have the CRC-32") {
		t.Errorf("error is %v, want that the sum differs", err)
	}
}

// TestRefuseBlocks: blocks whose sums are right and whose rows lie.
func TestRefuseBlocks(t *testing.T) {
	tableOf := func(kind byte, block string) []byte {
		text := append([]byte(block), kind)
		text = binary.LittleEndian.AppendUint32(text, mask(crc32.Checksum(text, castagnoli)))
		w := newTableWriter(&bytes.Buffer{})
		w.offset = int64(len(text))
		var rest bytes.Buffer
		w.w = &rest
		w.ended, w.waits = handle{0, int64(len(block))}, true
		if err := w.close(); err != nil {
			t.Fatal(err)
		}
		return append(text, rest.Bytes()...)
	}
	const end = "\x00\x00\x00\x00\x01\x00\x00\x00"
	plain := string(indexOf(t, row{value: header()}, entryOf("a", 0)))
	plain = plain[:strings.Index(plain, end)+len(end)]
	if f, err := read(tableOf(snappyCompressed, string(snappy.Encode(nil, []byte(plain)))), data); err != nil ||
		!slices.Equal(f.Names(), []string{"a"}) {
		t.Errorf("a compressed block: %v", err)
	}
	for want, table := range map[string][]byte{
		"compressed by method 7":                tableOf(7, plain),
		"block is not valid snappy":             tableOf(snappyCompressed, "\x05abc"),
		"want at most 67108864":                 tableOf(snappyCompressed, "\xff\xff\xff\xff\x0fabc"),
		"block of 3 bytes, want at least 4":     tableOf(0, "abc"),
		"has 16777215 restarts":                 tableOf(0, "\xff\xff\xff\x00"),
		"row has no lengths":                    tableOf(0, "\x80"+end),
		"row shares 1 bytes of 0":               tableOf(0, "\x01\x00\x00"+end),
		"has 127 and 0 of its own":              tableOf(0, "\x00\x7f\x00"+end),
		"has 0 and 127 of its own":              tableOf(0, "\x00\x00\x7f"+end),
		"has 18446744073709551615 and 1 of its": tableOf(0, "\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x01"+end),
		"name of 5000 bytes":                    tableOf(0, "\x00\x88\x27\x00"+strings.Repeat("x", 5000)+end),
	} {
		if _, err := read(table, data); !errors.Is(err, weights.ErrFormat) || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want %q in it", err, want)
		}
	}
}

// TestTruncated: an index that was cut anywhere is refused, and so are data that end too early.
func TestTruncated(t *testing.T) {
	whole := indexOf(t, row{value: header()}, entryOf("a", 0), entryOf("b", 8))
	for n := range whole {
		if _, err := read(whole[:n], data); !errors.Is(err, weights.ErrFormat) || !strings.Contains(err.Error(), "m.index: byte ") {
			t.Errorf("index cut after %d bytes: error is %v", n, err)
		}
	}
	for n := range data {
		if _, err := read(whole, data[:n]); !errors.Is(err, weights.ErrFormat) || !strings.Contains(err.Error(), "m.data: byte ") {
			t.Errorf("data cut after %d bytes: error is %v", n, err)
		}
	}
}

// TestTable: any sorted names come back, whatever they share.
func TestTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.SliceOfDistinct(rapid.StringMatching(`[ab/]{0,12}`), rapid.ID).Draw(t, "keys")
		slices.Sort(keys)
		var b bytes.Buffer
		w := newTableWriter(&b)
		for _, key := range keys {
			if err := w.put(key, []byte("value of "+key)); err != nil {
				t.Fatal(err)
			}
			if rapid.Bool().Draw(t, "flush") {
				if err := w.flush(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := w.close(); err != nil {
			t.Fatal(err)
		}
		rows, err := readTable(weights.NewPart(bytes.NewReader(b.Bytes()), int64(b.Len()), "t"))
		if err != nil || len(rows) != len(keys) {
			t.Fatalf("%d rows, %v, want %d", len(rows), err, len(keys))
		}
		for i, r := range rows {
			if r.key != keys[i] || string(r.value) != "value of "+r.key {
				t.Fatalf("row %d is %q, %q, want %q", i, r.key, r.value, keys[i])
			}
		}
	})
}

// TestMask: the value of leveldb's own test, util/crc32c_test.cc.
func TestMask(t *testing.T) {
	if got := crc32.Checksum([]byte("123456789"), castagnoli); got != 0xe3069283 {
		t.Errorf("CRC-32C of the usual nine digits is %08x", got)
	}
	crc := crc32.Checksum([]byte("foo"), castagnoli)
	if crc == mask(crc) || crc == mask(mask(crc)) || unmask(mask(crc)) != crc || unmask(unmask(mask(mask(crc)))) != crc {
		t.Errorf("%08x is masked as %08x", crc, mask(crc))
	}
}

// FuzzOpen: no index makes the reader panic or reach outside of the files, and every tensor of an accepted one can
// be read or has a sum that is wrong. The sums of blocks are made right first: the fuzzer would hardly get past
// them.
func FuzzOpen(f *testing.F) {
	f.Add(indexOf(f, row{value: header()}, entryOf("a", 0), entryOf("b", 8)))
	f.Add(indexOf(f, row{value: header()}))
	f.Add(indexOf(f))
	f.Fuzz(func(t *testing.T, index []byte) {
		index = slices.Clone(index)
		repair(index)
		file, err := read(index, data)
		if err != nil {
			if !errors.Is(err, weights.ErrFormat) {
				t.Errorf("error %v does not wrap ErrFormat", err)
			}
			return
		}
		for _, info := range file.Tensors() {
			b, err := info.Bytes()
			if err != nil && !errors.Is(err, weights.ErrFormat) || err == nil && int64(len(b)) != info.ByteLen() {
				t.Errorf("%s: %d bytes, %v", info.Name, len(b), err)
			}
		}
	})
}

// repair makes the sums of the index's block and of those that it names right.
func repair(index []byte) {
	if len(index) < footerLen {
		return
	}
	p := weights.NewPart(bytes.NewReader(index), int64(len(index)), "")
	at := int64(len(index) - footerLen)
	fix := func(h handle) {
		end := h.offset + h.size + 1
		binary.LittleEndian.PutUint32(index[end:], mask(crc32.Checksum(index[h.offset:end], castagnoli)))
	}
	_, rest, err := readHandle(p, at, index[at:])
	if err != nil {
		return
	}
	h, _, err := readHandle(p, at, rest)
	if err != nil {
		return
	}
	fix(h)
	blocks, err := readBlock(p, h, new(int64))
	if err != nil {
		return
	}
	for _, b := range blocks {
		if h, _, err := readHandle(p, 0, b.value); err == nil {
			fix(h)
		}
	}
}

package safetensors

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"harness.invalid/core/checkpoint/weights"
	"harness.invalid/core/tensor"
)

func TestRefuse(t *testing.T) {
	tensorA := func(body string) []byte { return file(`{"a":{`+body+`}}`, exampleData) }
	huge := file(exampleHeader, exampleData)
	binary.LittleEndian.PutUint64(huge, MaxHeader+1)
	two := func(nameA, shapeA, offsetsA, nameB, shapeB, offsetsB string) []byte {
		const entry = `"%s":{"dtype":"U8","shape":%s,"data_offsets":%s}`
		return file(fmt.Sprintf("{"+entry+","+entry+"}", nameA, shapeA, offsetsA, nameB, shapeB, offsetsB), "abc"[:int(offsetsB[3]-'0')])
	}
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
		"name twice":          {two("a", "[1]", "[0,1]", "a", "[1]", "[1,2]"), `name "a" occurs twice`},
		"escaped name twice":  {two("a", "[1]", "[0,1]", `\u0061`, "[1]", "[1,2]"), `name "a" occurs twice`},
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
		"overlap":           {two("a", "[2]", "[0,2]", "b", "[2]", "[1,3]"), `data of "b" begins at 1 of the buffer and overlaps`},
		"same bytes":        {two("a", "[2]", "[0,2]", "b", "[2]", "[0,2]"), "overlaps"},
		"million dimensions": {tensorA(`"dtype":"U8","shape":[` + strings.Repeat("1,", 1_000_000) + `11],"data_offsets":[0,11]`),
			"more than 64 numbers"},
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

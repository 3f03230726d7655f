// Package safetensors reads and writes Hugging Face's safetensors files: named tensors of known types and shapes,
// and no code.
//
// A file is an 8-byte little-endian length N, N bytes of JSON that say name, type, shape and place of every tensor,
// and the tensors' bytes, row-major and little-endian, one after the other without gaps. Open reads only the first
// two parts and maps the third into memory, so a file of gigabytes opens at once and without a copy.
//
// Everything in a file is checked before it is used; errors name the file and the byte. Source of the rules:
// github.com/huggingface/safetensors, README.md and src/tensor.rs.
package safetensors

import (
	"errors"
	"io"

	"harness.invalid/core/checkpoint/weights"
	"harness.invalid/core/tensor"
)

// MaxHeader is the greatest length of the JSON header in bytes, the same as in the reference implementation.
const MaxHeader = 100_000_000

// dtypes are the types of the format in the order of the reference implementation, by which files are sorted.
var dtypes = []tensor.DType{
	"BOOL", "F4", "F6_E2M3", "F6_E3M2", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ",
	"I16", "U16", "F16", "BF16", "I32", "U32", "F32", "C64", "F64", "I64", "U64",
}

// Format is what weights.File.Format says of a file that was opened here.
const Format = "safetensors"

// Open reads the header of a file and maps its data into memory. Tensors are in the order of their data.
func Open(path string) (*weights.File, error) {
	p, err := weights.OpenPart(path)
	if err != nil {
		return nil, err
	}
	f, err := open(p)
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return f, nil
}

// NewReader reads a file of a size from any source; name stands for it in errors. Closing the File leaves the
// source open.
func NewReader(r io.ReaderAt, size int64, name string) (*weights.File, error) {
	return open(weights.NewPart(r, size, name))
}

func open(p *weights.Part) (*weights.File, error) {
	tensors, metadata, err := readHeader(p)
	if err != nil {
		return nil, err
	}
	return weights.New(p.Name(), Format, tensors, metadata, p)
}

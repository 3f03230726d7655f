package tensorflow

import (
	"cmp"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"harness.invalid/core/checkpoint/weights"
	"harness.invalid/core/durable"
	"harness.invalid/core/tensor"
)

// numbers are the types' numbers.
var numbers = func() map[tensor.DType]uint64 {
	m := make(map[tensor.DType]uint64, len(types))
	for n, d := range types {
		m[d] = n
	}
	return m
}()

// Write writes the two files of a checkpoint PREFIX, the index last: without it there is no checkpoint. Equal
// contents give equal bytes, the same as TensorFlow's Saver writes.
func Write(prefix string, contents []weights.Content) error {
	fail := func(err error) error { return fmt.Errorf("write %s: %w", prefix, err) }
	sorted := slices.Clone(contents)
	slices.SortFunc(sorted, func(a, b weights.Content) int { return cmp.Compare(a.Name, b.Name) })
	for i, c := range sorted {
		switch _, err := c.Check(); {
		case err != nil:
			return fail(err)
		case numbers[c.DType] == 0:
			return fail(fmt.Errorf("tensor %s: TensorFlow has no type %s", c.Name, c.DType))
		case c.Name == "" || len(c.Name) > maxKey:
			return fail(fmt.Errorf("tensor %q: want a name of 1 to %d bytes", weights.Clip(c.Name), maxKey))
		case i > 0 && c.Name == sorted[i-1].Name:
			return fail(fmt.Errorf("two tensors are named %s", c.Name))
		}
	}
	var entries [][]byte
	if err := durable.WriteFile(shardPath(prefix, 0, 1), func(w io.Writer) error {
		offset := int64(0)
		for _, c := range sorted {
			sum := crc32.New(castagnoli)
			n, err := c.WriteTo(io.MultiWriter(w, sum))
			if err != nil {
				return err
			}
			entries = append(entries, appendEntry(c, offset, n, mask(sum.Sum32())))
			offset += n
		}
		return nil
	}); err != nil {
		return err
	}
	return durable.WriteFile(prefix+IndexSuffix, func(w io.Writer) error {
		t := newTableWriter(w)
		if err := t.put("", header()); err != nil {
			return err
		}
		for i, c := range sorted {
			if err := t.put(c.Name, entries[i]); err != nil {
				return err
			}
		}
		return t.close()
	})
}

// header is a BundleHeaderProto: one shard, little-endian, version.producer 1 (kTensorBundleVersion).
func header() []byte {
	b := appendNumber(nil, 1, 1)
	b = protowire.AppendTag(b, 3, protowire.BytesType)
	return protowire.AppendBytes(b, appendNumber(nil, 1, 1))
}

// appendEntry writes a BundleEntryProto.
func appendEntry(c weights.Content, offset, size int64, crc uint32) []byte {
	var shape []byte
	for _, extent := range c.Shape {
		shape = protowire.AppendTag(shape, 2, protowire.BytesType)
		shape = protowire.AppendBytes(shape, appendNumber(nil, 1, uint64(extent)))
	}
	b := appendNumber(nil, 1, numbers[c.DType])
	b = protowire.AppendTag(b, 2, protowire.BytesType)
	b = protowire.AppendBytes(b, shape)
	b = appendNumber(b, 4, uint64(offset))
	b = appendNumber(b, 5, uint64(size))
	b = protowire.AppendTag(b, 6, protowire.Fixed32Type)
	return protowire.AppendFixed32(b, crc)
}

// appendNumber writes a field unless it is 0, the default of a missing field.
func appendNumber(b []byte, number protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), v)
}

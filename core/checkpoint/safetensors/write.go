package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"

	"harness.invalid/core/checkpoint/weights"
	"harness.invalid/core/durable"
)

// Write puts a file at path, in full or not at all: under a temporary name, flushed to the disk, then renamed.
// Tensors are ordered as the reference implementation orders them, by type from the widest to the narrowest and
// then by name, so equal contents give equal bytes. metadata may be nil; Hugging Face's loaders want {"format":
// "pt"}.
func Write(path string, contents []weights.Content, metadata map[string]string) error {
	// Contents are checked before anything is written.
	header, sorted, err := buildHeader(contents, metadata)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return durable.WriteFile(path, func(w io.Writer) error { return writeParts(w, header, sorted) })
}

// WriteTo writes the contents of such a file to w.
func WriteTo(w io.Writer, contents []weights.Content, metadata map[string]string) error {
	header, sorted, err := buildHeader(contents, metadata)
	if err != nil {
		return err
	}
	return writeParts(w, header, sorted)
}

func writeParts(w io.Writer, header []byte, contents []weights.Content) error {
	var length [prefix]byte
	binary.LittleEndian.PutUint64(length[:], uint64(len(header)))
	if _, err := w.Write(append(length[:], header...)); err != nil {
		return err
	}
	for _, c := range contents {
		if _, err := c.WriteTo(w); err != nil {
			return err
		}
	}
	return nil
}

// buildHeader checks the contents, sorts them and writes the JSON that goes before them.
func buildHeader(contents []weights.Content, metadata map[string]string) ([]byte, []weights.Content, error) {
	sorted := slices.Clone(contents)
	slices.SortStableFunc(sorted, func(a, b weights.Content) int {
		return cmp.Or(cmp.Compare(slices.Index(dtypes, b.DType), slices.Index(dtypes, a.DType)), cmp.Compare(a.Name, b.Name))
	})
	var out bytes.Buffer
	out.WriteByte('{')
	if metadata != nil {
		out.WriteString(`"__metadata__":{`)
		for i, key := range slices.Sorted(maps.Keys(metadata)) {
			if i > 0 {
				out.WriteByte(',')
			}
			out.Write(jsonString(key))
			out.WriteByte(':')
			out.Write(jsonString(metadata[key]))
		}
		out.WriteByte('}')
	}
	seen := make(map[string]bool, len(sorted))
	offset := int64(0)
	for _, c := range sorted {
		n, err := check(c, seen)
		if err != nil {
			return nil, nil, err
		}
		if out.Len() > 1 {
			out.WriteByte(',')
		}
		out.Write(jsonString(c.Name))
		shape, err := json.Marshal(append([]int{}, c.Shape...))
		if err != nil {
			return nil, nil, err
		}
		fmt.Fprintf(&out, `:{"dtype":%q,"shape":%s,"data_offsets":[%d,%d]}`, c.DType, shape, offset, offset+n)
		offset += n
	}
	out.WriteByte('}')
	for out.Len()%8 != 0 {
		out.WriteByte(' ')
	}
	if out.Len() > MaxHeader {
		return nil, nil, fmt.Errorf("header of %d bytes, want at most %d", out.Len(), MaxHeader)
	}
	return out.Bytes(), sorted, nil
}

// check rejects contents that no file could hold, and returns the length of the data in bytes.
func check(c weights.Content, seen map[string]bool) (int64, error) {
	switch {
	case c.Name == "__metadata__":
		return 0, fmt.Errorf("tensor %s: the name is reserved", c.Name)
	case seen[c.Name]:
		return 0, fmt.Errorf("two tensors are named %s", c.Name)
	}
	seen[c.Name] = true
	return c.Check()
}

// jsonString writes a string without json.Marshal's HTML escapes.
func jsonString(s string) []byte {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		panic("safetensors: a string can't be written as JSON") // no string can't
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

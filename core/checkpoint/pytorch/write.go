package pytorch

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"

	"harness.invalid/core/checkpoint/weights"
	"harness.invalid/core/durable"
)

// prefix is the folder in an archive; torch.save names it after the file, and torch.load does not care.
const prefix = "archive/"

// align is where the data of a storage begin in the file: caffe2/serialize/inline_container.h, kFieldAlignment.
const align = 64

// Write puts a file at path that torch.load reads as an OrderedDict of tensors, in full or not at all. aliases are
// second names of tensors, which share the storage as tied parameters in a state_dict do. Equal contents give equal
// bytes.
func Write(path string, contents []weights.Content, aliases map[string]string) error {
	pickle, err := dump(contents, aliases)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return durable.WriteFile(path, func(w io.Writer) error { return writeZip(w, contents, pickle) })
}

func writeZip(w io.Writer, contents []weights.Content, pickle []byte) error {
	out := &counter{w: w}
	z := zip.NewWriter(out)
	// put writes a file whose local header has its sum and length. That takes two passes over the data but saves
	// every reader a search.
	put := func(name string, write func(io.Writer) error) error {
		sum, n := crc32.NewIEEE(), &counter{w: io.Discard}
		if err := write(io.MultiWriter(sum, n)); err != nil {
			return err
		}
		if err := z.Flush(); err != nil {
			return err
		}
		// The data begin behind a local header of 30 bytes, the name, and an extra field, which pads as PyTorch's
		// does: "FB", the length, and that many bytes.
		const header = 30 + 4
		pad := (align - (out.n+header+int64(len(prefix+name)))%align) % align
		extra := binary.LittleEndian.AppendUint16([]byte("FB"), uint16(pad))
		f, err := z.CreateRaw(&zip.FileHeader{
			Name: prefix + name, Method: zip.Store, Extra: append(extra, bytes.Repeat([]byte("Z"), int(pad))...),
			CRC32: sum.Sum32(), CompressedSize64: uint64(n.n), UncompressedSize64: uint64(n.n),
		})
		if err != nil {
			return err
		}
		return write(f)
	}
	text := func(b []byte) func(io.Writer) error {
		return func(w io.Writer) error {
			_, err := w.Write(b)
			return err
		}
	}
	if err := put("data.pkl", text(pickle)); err != nil {
		return err
	}
	if err := put("byteorder", text([]byte("little"))); err != nil {
		return err
	}
	for i, c := range contents {
		if err := put("data/"+strconv.Itoa(i), func(w io.Writer) error {
			_, err := c.WriteTo(w)
			return err
		}); err != nil {
			return err
		}
	}
	if err := put("version", text([]byte("3\n"))); err != nil {
		return err
	}
	return z.Close()
}

// counter counts what is written.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}

// dump writes the pickle of an OrderedDict of the tensors, in protocol 2 as torch.save does. Content i is storage i.
func dump(contents []weights.Content, aliases map[string]string) ([]byte, error) {
	names := make(map[string][]string, len(aliases))
	for alias, name := range aliases {
		names[name] = append(names[name], alias)
	}
	seen := make(map[string]bool, len(contents))
	var b bytes.Buffer
	text := func(s string) {
		b.WriteByte('X')
		b.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(s))))
		b.WriteString(s)
	}
	number := func(n int64) {
		if n < 1<<31 {
			b.WriteByte('J')
			b.Write(binary.LittleEndian.AppendUint32(nil, uint32(n)))
			return
		}
		b.WriteString("\x8a\x08") // LONG1 of 8 bytes
		b.Write(binary.LittleEndian.AppendUint64(nil, uint64(n)))
	}
	numbers := func(values []int64) {
		b.WriteByte('(')
		for _, v := range values {
			number(v)
		}
		b.WriteByte('t')
	}
	const orderedDict = "ccollections\nOrderedDict\n)R"
	b.WriteString("\x80\x02" + orderedDict + "(")
	for i, c := range contents {
		if _, err := c.Check(); err != nil {
			return nil, err
		}
		class := classes[c.DType]
		if class == "" {
			return nil, fmt.Errorf("tensor %s: PyTorch has no storage of type %s", c.Name, c.DType)
		}
		shape, strides := make([]int64, len(c.Shape)), make([]int64, len(c.Shape))
		n := int64(1)
		for axis := len(c.Shape) - 1; axis >= 0; axis-- {
			shape[axis], strides[axis] = int64(c.Shape[axis]), max(n, 1)
			n *= shape[axis]
		}
		for _, name := range append([]string{c.Name}, names[c.Name]...) {
			if seen[name] {
				return nil, fmt.Errorf("two tensors are named %s", name)
			}
			seen[name] = true
			text(name)
			b.WriteString("ctorch._utils\n_rebuild_tensor_v2\n((")
			text("storage")
			b.WriteString("ctorch\n" + class + "\n")
			text(strconv.Itoa(i))
			text("cpu")
			number(n)
			b.WriteString("tQ")
			number(0)
			numbers(shape)
			numbers(strides)
			b.WriteString("\x89" + orderedDict + "tR")
		}
	}
	b.WriteString("u.")
	return b.Bytes(), nil
}

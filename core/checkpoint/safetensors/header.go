package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"harness.invalid/core/tensor"
)

// prefix is the length of the header's length.
const prefix = 8

// readHeader reads and checks the first two parts of a file.
func readHeader(r io.ReaderAt, size int64, name string) ([]Tensor, map[string]string, error) {
	fail := func(offset int64, format string, args ...any) error {
		return fmt.Errorf("%s: byte %d: %s: %w", name, offset, fmt.Sprintf(format, args...), ErrFormat)
	}
	if size < prefix {
		return nil, nil, fail(size, "file ends after %d bytes, want at least the %d of the header's length", size, prefix)
	}
	var length [prefix]byte
	if _, err := r.ReadAt(length[:], 0); err != nil {
		return nil, nil, fmt.Errorf("%s: read the header's length: %w", name, err)
	}
	n := binary.LittleEndian.Uint64(length[:])
	if n > MaxHeader {
		return nil, nil, fail(0, "header of %d bytes, want at most %d", n, MaxHeader)
	}
	if int64(n) > size-prefix {
		return nil, nil, fail(0, "header of %d bytes in a file of %d", n, size)
	}
	text := make([]byte, n)
	if _, err := r.ReadAt(text, prefix); err != nil && !(errors.Is(err, io.EOF) && n == 0) {
		return nil, nil, fmt.Errorf("%s: read the header: %w", name, err)
	}
	if !utf8.Valid(text) {
		return nil, nil, fail(prefix+invalidUTF8(text), "header is not UTF-8")
	}
	h := headerParser{dec: json.NewDecoder(bytes.NewReader(text))}
	h.dec.UseNumber()
	if err := h.parse(text); err != nil {
		at := h.dec.InputOffset()
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			at = syntax.Offset
		}
		if errors.Is(err, io.EOF) {
			err = errors.New("header ends inside of a value")
		}
		return nil, nil, fail(prefix+at, "header: %v", err)
	}
	data := int64(prefix + n)
	slices.SortStableFunc(h.tensors, func(a, b Tensor) int {
		return cmp.Or(cmp.Compare(a.offset, b.offset), cmp.Compare(a.Bytes, b.Bytes), cmp.Compare(a.Name, b.Name))
	})
	end := int64(0)
	for i := range h.tensors {
		t := &h.tensors[i]
		if t.offset != end {
			what := "leaves a hole after"
			if t.offset < end {
				what = "overlaps with"
			}
			return nil, nil, fail(data+t.offset, "data of %s begins at %d of the buffer and %s what ends at %d", quote(t.Name), t.offset, what, end)
		}
		end += t.Bytes // the second of its data_offsets, so within an int64
		t.offset += data
	}
	if buffer := size - data; end != buffer {
		return nil, nil, fail(data+min(end, buffer), "tensors take %d bytes, the file has %d after its header", end, buffer)
	}
	return h.tensors, h.metadata, nil
}

func invalidUTF8(text []byte) int64 {
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && n == 1 {
			return int64(i)
		}
		i += n
	}
	return int64(len(text))
}

// headerParser walks the header token by token: encoding/json would let duplicate and unknown keys pass.
type headerParser struct {
	dec      *json.Decoder
	tensors  []Tensor
	metadata map[string]string
	names    map[string]bool
}

func (h *headerParser) parse(text []byte) error {
	if len(text) == 0 || text[0] != '{' {
		return errors.New("want { as the first byte")
	}
	h.names = make(map[string]bool)
	err := h.object("the header", func(key string) error {
		if h.names[key] {
			return fmt.Errorf("name %s occurs twice", quote(key))
		}
		h.names[key] = true
		if key == "__metadata__" {
			return h.readMetadata()
		}
		return h.readTensor(key)
	})
	if err != nil {
		return err
	}
	if _, err := h.dec.Token(); err != io.EOF {
		return errors.New("more than white space follows the header's object")
	}
	return nil
}

// object reads an object and calls value for each key, which must read its value.
func (h *headerParser) object(what string, value func(key string) error) error {
	if t, err := h.dec.Token(); err != nil {
		return err
	} else if t != json.Delim('{') {
		return fmt.Errorf("%s is %v, want an object", what, t)
	}
	for h.dec.More() {
		key, err := h.dec.Token()
		if err != nil {
			return err
		}
		if err := value(key.(string)); err != nil {
			return err
		}
	}
	_, err := h.dec.Token()
	return err
}

func (h *headerParser) readMetadata() error {
	h.metadata = make(map[string]string)
	return h.object("__metadata__", func(key string) error {
		if _, ok := h.metadata[key]; ok {
			return fmt.Errorf("__metadata__ has the key %s twice", quote(key))
		}
		t, err := h.dec.Token()
		if err != nil {
			return err
		}
		text, ok := t.(string)
		if !ok {
			return fmt.Errorf("__metadata__ %s is %v, want a string", quote(key), t)
		}
		h.metadata[key] = text
		return nil
	})
}

func (h *headerParser) readTensor(name string) error {
	t := Tensor{Name: name, Shape: tensor.Shape{}}
	var offsets []int64
	seen := make(map[string]bool, 3)
	err := h.object("tensor "+quote(name), func(key string) error {
		if seen[key] {
			return fmt.Errorf("tensor %s has the key %s twice", quote(name), quote(key))
		}
		seen[key] = true
		switch key {
		case "dtype":
			token, err := h.dec.Token()
			if err != nil {
				return err
			}
			text, _ := token.(string)
			t.DType = tensor.DType(text)
			if bits[t.DType] == 0 {
				return fmt.Errorf("tensor %s: dtype %v is not known", quote(name), clip(fmt.Sprint(token)))
			}
			return nil
		case "shape":
			extents, err := h.numbers(name, "shape")
			for _, d := range extents {
				if d > math.MaxInt {
					return fmt.Errorf("tensor %s: extent %d is too large", quote(name), d)
				}
				t.Shape = append(t.Shape, int(d))
			}
			return err
		case "data_offsets":
			var err error
			offsets, err = h.numbers(name, "data_offsets")
			return err
		}
		return fmt.Errorf("tensor %s has the key %s, want dtype, shape and data_offsets", quote(name), quote(key))
	})
	if err != nil {
		return err
	}
	for _, key := range []string{"dtype", "shape", "data_offsets"} {
		if !seen[key] {
			return fmt.Errorf("tensor %s has no %s", quote(name), key)
		}
	}
	if len(offsets) != 2 || offsets[0] > offsets[1] {
		return fmt.Errorf("tensor %s: data_offsets are %v, want begin and end", quote(name), offsets)
	}
	t.offset, t.Bytes = offsets[0], offsets[1]-offsets[0]
	want, err := byteLen(t.DType, t.Shape)
	if err != nil {
		return fmt.Errorf("tensor %s: %w", quote(name), err)
	}
	if want != t.Bytes {
		return fmt.Errorf("tensor %s: %d bytes at data_offsets %v, want %d for %s %v", quote(name), t.Bytes, offsets, want, t.DType, t.Shape)
	}
	h.tensors = append(h.tensors, t)
	return nil
}

// numbers reads an array of whole numbers of at least 0.
func (h *headerParser) numbers(name, key string) ([]int64, error) {
	if t, err := h.dec.Token(); err != nil {
		return nil, err
	} else if t != json.Delim('[') {
		return nil, fmt.Errorf("tensor %s: %s is %v, want an array", quote(name), key, t)
	}
	var values []int64
	for h.dec.More() {
		t, err := h.dec.Token()
		if err != nil {
			return nil, err
		}
		number, _ := t.(json.Number)
		v, err := strconv.ParseInt(number.String(), 10, 64)
		if err != nil || v < 0 {
			return nil, fmt.Errorf("tensor %s: %s holds %s, want whole numbers of at least 0", quote(name), key, clip(fmt.Sprint(t)))
		}
		values = append(values, v)
	}
	_, err := h.dec.Token()
	return values, err
}

// byteLen is the length of the data of a tensor, checked for overflow.
func byteLen(d tensor.DType, shape tensor.Shape) (int64, error) {
	n := int64(1)
	for _, extent := range shape {
		if extent != 0 && n > math.MaxInt64/int64(extent) {
			return 0, fmt.Errorf("shape %v has too many elements", shape)
		}
		n *= int64(extent)
	}
	if n > math.MaxInt64/int64(bits[d]) {
		return 0, fmt.Errorf("shape %v has too many elements", shape)
	}
	n *= int64(bits[d])
	if n%8 != 0 {
		return 0, fmt.Errorf("%s %v does not fill whole bytes", d, shape)
	}
	return n / 8, nil
}

// quote and clip keep a hostile header from flooding an error.
func quote(name string) string { return strconv.Quote(clip(name)) }

func clip(s string) string {
	const limit = 200
	if len(s) <= limit {
		return s
	}
	return s[:limit] + "..."
}

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

	"harness.invalid/core/checkpoint/weights"
	"harness.invalid/core/tensor"
)

// prefix is the length of the header's length.
const prefix = 8

// entry is what the header says of a tensor.
type entry struct {
	name          string
	dtype         tensor.DType
	shape         tensor.Shape
	offset, bytes int64 // of its data, from the end of the header
}

// readHeader reads and checks a file's length field and header.
func readHeader(p *weights.Part) ([]weights.Tensor, map[string]string, error) {
	if p.Size() < prefix {
		return nil, nil, p.Errorf(p.Size(), "file ends after %d bytes, want at least the %d of the header's length", p.Size(), prefix)
	}
	length, err := p.Bytes(0, prefix)
	if err != nil {
		return nil, nil, err
	}
	n := binary.LittleEndian.Uint64(length)
	if n > MaxHeader {
		return nil, nil, p.Errorf(0, "header of %d bytes, want at most %d", n, MaxHeader)
	}
	if int64(n) > p.Size()-prefix {
		return nil, nil, p.Errorf(0, "header of %d bytes in a file of %d", n, p.Size())
	}
	text, err := p.Bytes(prefix, int64(n))
	if err != nil {
		return nil, nil, err
	}
	if !utf8.Valid(text) {
		return nil, nil, p.Errorf(prefix+invalidUTF8(text), "header is not UTF-8")
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
			err = errors.New("header ends inside a value")
		}
		return nil, nil, p.Errorf(prefix+at, "header: %w", err)
	}
	data := int64(prefix + n)
	slices.SortStableFunc(h.entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.offset, b.offset), cmp.Compare(a.bytes, b.bytes), cmp.Compare(a.name, b.name))
	})
	end := int64(0)
	for _, e := range h.entries {
		if e.offset != end {
			what := "leaves a hole after"
			if e.offset < end {
				what = "overlaps with"
			}
			return nil, nil, p.Errorf(data+e.offset, "data of %s begins at %d of the buffer and %s what ends at %d", weights.Quote(e.name),
				e.offset, what, end)
		}
		end += e.bytes // the second of its data_offsets, so within an int64
	}
	if buffer := p.Size() - data; end != buffer {
		return nil, nil, p.Errorf(data+min(end, buffer), "tensors take %d bytes, the file has %d after its header", end, buffer)
	}
	tensors := make([]weights.Tensor, len(h.entries))
	for i, e := range h.entries {
		if tensors[i], err = p.Tensor(e.name, e.dtype, e.shape, data+e.offset); err != nil {
			return nil, nil, err
		}
	}
	return tensors, h.metadata, nil
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

// headerParser reads the header token by token, since encoding/json accepts duplicate and unknown keys.
type headerParser struct {
	dec      *json.Decoder
	entries  []entry
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
			return fmt.Errorf("name %s occurs twice", weights.Quote(key))
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
			return fmt.Errorf("__metadata__ has the key %s twice", weights.Quote(key))
		}
		t, err := h.dec.Token()
		if err != nil {
			return err
		}
		text, ok := t.(string)
		if !ok {
			return fmt.Errorf("__metadata__ %s is %v, want a string", weights.Quote(key), t)
		}
		h.metadata[key] = text
		return nil
	})
}

func (h *headerParser) readTensor(name string) error {
	e := entry{name: name, shape: tensor.Shape{}}
	var offsets []int64
	seen := make(map[string]bool, 3)
	err := h.object("tensor "+weights.Quote(name), func(key string) error {
		if seen[key] {
			return fmt.Errorf("tensor %s has the key %s twice", weights.Quote(name), weights.Quote(key))
		}
		seen[key] = true
		switch key {
		case "dtype":
			token, err := h.dec.Token()
			if err != nil {
				return err
			}
			text, _ := token.(string)
			e.dtype = tensor.DType(text)
			if weights.Bits(e.dtype) == 0 {
				return fmt.Errorf("tensor %s: dtype %v is not known", weights.Quote(name), weights.Clip(fmt.Sprint(token)))
			}
			return nil
		case "shape":
			extents, err := h.numbers(name, "shape")
			for _, d := range extents {
				if d > math.MaxInt {
					return fmt.Errorf("tensor %s: extent %d is too large", weights.Quote(name), d)
				}
				e.shape = append(e.shape, int(d))
			}
			return err
		case "data_offsets":
			var err error
			offsets, err = h.numbers(name, "data_offsets")
			return err
		}
		return fmt.Errorf("tensor %s has the key %s, want dtype, shape and data_offsets", weights.Quote(name), weights.Quote(key))
	})
	if err != nil {
		return err
	}
	for _, key := range []string{"dtype", "shape", "data_offsets"} {
		if !seen[key] {
			return fmt.Errorf("tensor %s has no %s", weights.Quote(name), key)
		}
	}
	if len(offsets) != 2 || offsets[0] > offsets[1] {
		return fmt.Errorf("tensor %s: data_offsets are %v, want begin and end", weights.Quote(name), offsets)
	}
	e.offset, e.bytes = offsets[0], offsets[1]-offsets[0]
	want, err := weights.ByteLen(e.dtype, e.shape)
	if err != nil {
		return fmt.Errorf("tensor %s: %w", weights.Quote(name), err)
	}
	if want != e.bytes {
		return fmt.Errorf("tensor %s: %d bytes at data_offsets %v, want %d for %s %v", weights.Quote(name), e.bytes, offsets, want,
			e.dtype, e.shape)
	}
	h.entries = append(h.entries, e)
	return nil
}

// mostNumbers is how many dimensions a tensor may have: a header can list a million, and each takes time wherever it goes.
const mostNumbers = 64

// numbers reads an array of whole numbers of at least 0.
func (h *headerParser) numbers(name, key string) ([]int64, error) {
	if t, err := h.dec.Token(); err != nil {
		return nil, err
	} else if t != json.Delim('[') {
		return nil, fmt.Errorf("tensor %s: %s is %v, want an array", weights.Quote(name), key, t)
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
			return nil, fmt.Errorf("tensor %s: %s holds %s, want whole numbers of at least 0", weights.Quote(name), key, weights.Clip(fmt.Sprint(t)))
		}
		if len(values) == mostNumbers {
			return nil, fmt.Errorf("tensor %s: %s has more than %d numbers", weights.Quote(name), key, mostNumbers)
		}
		values = append(values, v)
	}
	_, err := h.dec.Token()
	return values, err
}

// Package pytorch reads and writes the files of torch.save, pytorch_model.bin among them, without Python and
// without running the code that such a file may hold.
//
// There are two forms. Since PyTorch 1.6 a file is a zip archive: NAME/data.pkl is a pickle that says which tensors
// there are, NAME/data/KEY is the data of each storage, not compressed. Older files are five pickles one after the
// other (a magic number, the version, facts about the machine, the value, the keys of its storages) and then the
// storages. Either way the data are mapped into memory where they lie.
//
// Values in dicts and lists are named by their keys and places, joined by "/": a training checkpoint of NVIDIA's
// has "model/bert.pooler.dense.bias" and "optimizer/state/0/exp_avg". Numbers and texts become metadata under such
// names.
//
// Source: torch/serialization.py, torch/_utils.py and caffe2/serialize of PyTorch 1.13.
package pytorch

import (
	"archive/zip"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"path"
	"slices"
	"strings"

	"harness.invalid/core/checkpoint/weights"
	"harness.invalid/core/tensor"
)

// The values of weights.File.Format for files opened here.
const (
	Zip    = "pytorch zip"
	Legacy = "pytorch pickle"
)

// maxPickle limits the length of data.pkl in bytes. BERT-Large's has 52,210.
const maxPickle = 64 << 20

// Open reads a file's description of its tensors and maps their data into memory.
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

func open(p *weights.Part) (*weights.File, error) {
	head := make([]byte, min(4, p.Size()))
	if _, err := p.ReadAt(head, 0); err != nil {
		return nil, fmt.Errorf("%s: %w", p.Name(), err)
	}
	switch {
	case bytes.HasPrefix(head, []byte("PK\x03\x04")):
		return openZip(p)
	case bytes.HasPrefix(head, []byte{0x80}):
		return openLegacy(p)
	}
	return nil, p.Errorf(0, "file begins with %q, want a zip archive or a pickle as torch.save writes them", head)
}

// archive is a zip as torch.save writes it.
type archive struct {
	part   *weights.Part
	prefix string // NAME/
	files  map[string]*zip.File
}

func openZip(p *weights.Part) (*weights.File, error) {
	r, err := zip.NewReader(p, p.Size())
	if err != nil {
		return nil, p.Errorf(p.Size(), "zip archive: %w", err)
	}
	a := archive{part: p, files: make(map[string]*zip.File, len(r.File))}
	found := false
	for _, f := range r.File {
		if a.files[f.Name] != nil {
			return nil, p.Errorf(p.Size(), "zip archive: %s is in it twice", weights.Quote(f.Name))
		}
		a.files[f.Name] = f
		if path.Base(f.Name) == "data.pkl" && !found {
			a.prefix, found = strings.TrimSuffix(f.Name, "data.pkl"), true
		}
	}
	if !found {
		return nil, p.Errorf(p.Size(), "zip archive of %d files without data.pkl: not what torch.save writes", len(r.File))
	}
	if order := a.files[a.prefix+"byteorder"]; order != nil {
		text, _, err := a.contents(order, 16)
		if err != nil {
			return nil, err
		}
		if string(text) != "little" {
			return nil, p.Errorf(0, "byte order is %q, want little", text)
		}
	}
	code, start, err := a.contents(a.files[a.prefix+"data.pkl"], maxPickle)
	if err != nil {
		return nil, err
	}
	m := &machine{part: p, code: code, start: start}
	byKey := make(map[string]*storage)
	m.persistent = func(id tuple) (*storage, error) { return a.storage(m, id, byKey) }
	v, err := m.run()
	if err != nil {
		return nil, err
	}
	if m.pos != len(code) {
		return nil, p.Errorf(start+int64(m.pos), "%d bytes follow the pickle, want none", len(code)-m.pos)
	}
	if err := apart(p, byKey); err != nil {
		return nil, err
	}
	return newFile(m, Zip, v)
}

// place returns where a file of the archive lies. It must be stored, not compressed, as torch.save does.
func (a *archive) place(f *zip.File) (offset, n int64, err error) {
	offset, err = f.DataOffset()
	if err != nil {
		return 0, 0, a.part.Errorf(a.part.Size(), "zip archive: %s: %w", weights.Quote(f.Name), err)
	}
	if f.Method != zip.Store {
		return 0, 0, a.part.Errorf(offset, "zip archive: %s is compressed, want it stored as torch.save does", weights.Quote(f.Name))
	}
	if f.UncompressedSize64 != f.CompressedSize64 || f.UncompressedSize64 > uint64(a.part.Size()-offset) {
		return 0, 0, a.part.Errorf(offset, "zip archive: %s of %d bytes in %d ends behind the file's %d", weights.Quote(f.Name),
			f.UncompressedSize64, f.CompressedSize64, a.part.Size())
	}
	return offset, int64(f.UncompressedSize64), nil
}

// contents reads a small file of the archive.
func (a *archive) contents(f *zip.File, limit int64) ([]byte, int64, error) {
	offset, n, err := a.place(f)
	if err != nil {
		return nil, 0, err
	}
	if n > limit {
		return nil, 0, a.part.Errorf(offset, "zip archive: %s has %d bytes, want at most %d", weights.Quote(f.Name), n, limit)
	}
	b, err := a.part.Bytes(offset, n)
	if err != nil {
		return nil, 0, err
	}
	if got := crc32.ChecksumIEEE(b); got != f.CRC32 {
		return nil, 0, a.part.Errorf(offset, "zip archive: %s has the CRC-32 %08x, want %08x", weights.Quote(f.Name), got, f.CRC32)
	}
	return b, offset, nil
}

// storage finds ("storage", TYPE, KEY, DEVICE, LEN).
func (a *archive) storage(m *machine, id tuple, byKey map[string]*storage) (*storage, error) {
	s, err := newStorage(m, id, byKey)
	if err != nil || s.offset >= 0 {
		return s, err
	}
	f := a.files[a.prefix+"data/"+s.key]
	if f == nil {
		return nil, m.errorf("storage %s has no file in the archive", weights.Quote(s.key))
	}
	var n int64
	if s.offset, n, err = a.place(f); err != nil {
		return nil, err
	}
	if s.size()*s.len > n {
		return nil, a.part.Errorf(s.offset, "storage %s has %d bytes, want %d for %d elements of type %s", weights.Quote(s.key), n,
			s.size()*s.len, s.len, s.dtype)
	}
	s.sum = a.part.Sum(s.offset, n, crc32.IEEETable, f.CRC32)
	return s, nil
}

// newStorage reads an id's first five values. A key seen before is the same storage and must have the same type and
// length.
func newStorage(m *machine, id tuple, byKey map[string]*storage) (*storage, error) {
	if len(id) < 5 || id[0] != "storage" {
		what := any(id)
		if len(id) > 0 {
			what = id[0]
		}
		return nil, m.errorf("%s is wanted from outside the pickle, want a storage", describe(what))
	}
	class, _ := id[1].(global)
	key, ok := id[2].(string)
	n, ok2 := id[4].(int64)
	d := storages[class]
	if d == "" || !ok || !ok2 || n < 0 || n > m.part.Size()*8/int64(weights.Bits(d)) {
		return nil, m.errorf("storage of class %s, key %s and length %s in a file of %d bytes", describe(id[1]), describe(id[2]),
			describe(id[4]), m.part.Size())
	}
	if s := byKey[key]; s != nil {
		if s.dtype != d || s.len != n {
			return nil, m.errorf("storage %s is %d elements of type %s here, and was %d of type %s", weights.Quote(key), n, d, s.len, s.dtype)
		}
		return s, nil
	}
	s := &storage{key: key, dtype: d, len: n, offset: -1}
	byKey[key] = s
	return s, nil
}

// size is that of an element in bytes.
func (s *storage) size() int64 { return int64(weights.Bits(s.dtype)) / 8 }

// apart reports storages that overlap.
func apart(p *weights.Part, byKey map[string]*storage) error {
	var all []*storage
	for _, s := range byKey {
		if s.len > 0 {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b *storage) int { return cmp.Or(cmp.Compare(a.offset, b.offset), cmp.Compare(a.key, b.key)) })
	for i := 1; i < len(all); i++ {
		if before := all[i-1]; before.offset+before.len*before.size() > all[i].offset {
			return p.Errorf(all[i].offset, "storage %s overlaps with storage %s", weights.Quote(all[i].key), weights.Quote(before.key))
		}
	}
	return nil
}

// The first two pickles of a legacy file (torch/serialization.py): MAGIC_NUMBER is 0x1950a86a20f9469cfc6c.
const (
	magicNumber   = bigInt("\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19")
	legacyVersion = int64(1001)
)

func openLegacy(p *weights.Part) (*weights.File, error) {
	code, err := p.Bytes(0, p.Size())
	if err != nil {
		return nil, err
	}
	m := &machine{part: p, code: code}
	m.persistent = func(tuple) (*storage, error) { return nil, m.errorf("a storage is wanted before the value begins") }
	if v, err := m.run(); err != nil {
		return nil, err
	} else if v != magicNumber {
		return nil, p.Errorf(0, "first pickle is %s, want the magic number of torch.save", describe(v))
	}
	if v, err := m.run(); err != nil {
		return nil, err
	} else if v != legacyVersion {
		return nil, m.errorf("protocol version is %s, want %d", describe(v), legacyVersion)
	}
	v, err := m.run()
	if err != nil {
		return nil, err
	}
	if facts, ok := v.(*dict); !ok || facts.get("little_endian") != true {
		return nil, m.errorf("the file was not written by a little-endian machine")
	}
	byKey := make(map[string]*storage)
	m.persistent = func(id tuple) (*storage, error) { return legacyStorage(m, id, byKey) }
	value, err := m.run()
	if err != nil {
		return nil, err
	}
	v, err = m.run()
	if err != nil {
		return nil, err
	}
	keys, ok := v.(*list)
	if !ok || len(keys.items) != len(byKey) {
		return nil, m.errorf("keys of storages are %s, want a list of %d", describe(v), len(byKey))
	}
	at := int64(m.pos)
	for _, v := range keys.items {
		key, _ := v.(string)
		s := byKey[key]
		if s == nil || s.offset >= 0 {
			return nil, p.Errorf(at, "storage %s is not used, or is there twice", describe(v))
		}
		b, err := p.Bytes(at, 8)
		if err != nil {
			return nil, err
		}
		if n := binary.LittleEndian.Uint64(b); n != uint64(s.len) {
			return nil, p.Errorf(at, "storage %s has %d elements, want %d", weights.Quote(key), n, s.len)
		}
		s.offset = at + 8
		if at = s.offset + s.len*s.size(); at > p.Size() {
			return nil, p.Errorf(s.offset, "storage %s of %d elements of type %s ends behind the file's %d bytes", weights.Quote(key), s.len,
				s.dtype, p.Size())
		}
	}
	if at != p.Size() {
		return nil, p.Errorf(at, "%d bytes follow the last storage, want none", p.Size()-at)
	}
	return newFile(m, Legacy, value)
}

// legacyStorage finds ("storage", TYPE, KEY, DEVICE, LEN, VIEW), where VIEW is None, or (KEY, OFFSET, LEN) of a part.
func legacyStorage(m *machine, id tuple, byKey map[string]*storage) (*storage, error) {
	s, err := newStorage(m, id, byKey)
	if err != nil {
		return nil, err
	}
	if len(id) > 5 && id[5] != nil {
		return nil, m.errorf("storage %s is a view of another one, as PyTorch wrote them before 1.0: save the file again with a newer one",
			weights.Quote(s.key))
	}
	return s, nil
}

func (d *dict) get(key string) any {
	for i, k := range d.keys {
		if k == key {
			return d.values[i]
		}
	}
	return nil
}

// newFile names the tensors of a value and locates them in the file.
func newFile(m *machine, format string, v any) (*weights.File, error) {
	c := &collector{machine: m, metadata: make(map[string]string), within: make(map[any]bool)}
	name := ""
	if _, ok := v.(*view); ok {
		name = "tensor" // the value is a single tensor, without a name
	}
	if err := c.collect(name, v); err != nil {
		return nil, err
	}
	tensors := make([]weights.Tensor, len(c.views))
	for i, v := range c.views {
		s := v.storage
		if v.offset > s.len {
			return nil, m.part.Errorf(v.at, "tensor %s begins at %d of a storage of %d elements", weights.Quote(c.names[i]), v.offset, s.len)
		}
		t, err := m.part.Strided(c.names[i], s.dtype, v.shape, v.strides, s.offset+v.offset*s.size(), s.len-v.offset)
		if err != nil {
			return nil, err
		}
		tensors[i] = t.Checked(s.sum)
	}
	return weights.New(m.part.Name(), format, tensors, c.metadata, m.part)
}

// classes are the storages' classes by the types of their elements.
var classes = func() map[tensor.DType]string {
	m := make(map[tensor.DType]string, len(storages))
	for g, d := range storages {
		m[d] = strings.TrimPrefix(string(g), "torch.")
	}
	return m
}()

package tensorflow

import (
	"encoding/binary"
	"hash/crc32"
	"io"

	"github.com/klauspost/compress/snappy"

	"harness.invalid/core/checkpoint/weights"
)

// A table is blocks, each followed by a byte that says how it is compressed and the masked sum of both, and at the
// end 48 bytes that say where the block of the index lies. A block is rows sorted by key; a row has the bytes of
// its key that differ from the row before. The index's rows are places of blocks. Source:
// leveldb/doc/table_format.md; tensorflow/core/lib/io/{format,block,table_builder}.cc.
const (
	footerLen        = 48
	trailerLen       = 5
	tableMagic       = 0xdb4775248b80fb57
	maxKey           = 1 << 12 // of a name in bytes
	maxBlock         = 1 << 26 // of a block once it is decompressed
	maxTable         = 1 << 28 // of all of them
	uncompressed     = 0
	snappyCompressed = 1
)

// row is a key and its value in a table. offset is the byte of the file where the row begins, or its block if that
// is compressed.
type row struct {
	key    string
	value  []byte
	offset int64
}

// readTable reads all rows of a table.
func readTable(p *weights.Part) ([]row, error) {
	if p.Size() < footerLen {
		return nil, p.Errorf(p.Size(), "file ends after %d bytes, want at least the %d of a table's footer", p.Size(), footerLen)
	}
	at := p.Size() - footerLen
	footer, err := p.Bytes(at, footerLen)
	if err != nil {
		return nil, err
	}
	if magic := binary.LittleEndian.Uint64(footer[footerLen-8:]); magic != tableMagic {
		return nil, p.Errorf(p.Size()-8, "table ends with %#x, want %#x: not the index of a TensorFlow checkpoint", magic, uint64(tableMagic))
	}
	_, rest, err := readHandle(p, at, footer[:footerLen-8]) // of blocks that say something on the table; there are none
	if err != nil {
		return nil, err
	}
	place, _, err := readHandle(p, at, rest)
	if err != nil {
		return nil, err
	}
	total := int64(0)
	blocks, err := readBlock(p, place, &total)
	if err != nil {
		return nil, err
	}
	var rows []row
	for _, b := range blocks {
		place, _, err := readHandle(p, b.offset, b.value)
		if err != nil {
			return nil, err
		}
		more, err := readBlock(p, place, &total)
		if err != nil {
			return nil, err
		}
		for _, r := range more {
			if n := len(rows); n > 0 && r.key <= rows[n-1].key {
				return nil, p.Errorf(r.offset, "name %s follows %s: a name occurs twice, or they are not sorted", weights.Quote(r.key),
					weights.Quote(rows[n-1].key))
			}
			rows = append(rows, r)
		}
	}
	return rows, nil
}

// handle is where a block lies, without its trailer.
type handle struct{ offset, size int64 }

// readHandle reads two numbers at the start of b, which lies near a byte of the file.
func readHandle(p *weights.Part, at int64, b []byte) (handle, []byte, error) {
	offset, n := binary.Uvarint(b)
	length, m := uint64(0), 0
	if n > 0 {
		length, m = binary.Uvarint(b[n:])
	}
	if n <= 0 || m <= 0 {
		return handle{}, nil, p.Errorf(at, "place of a block is not two numbers")
	}
	if limit := uint64(p.Size()); offset > limit || length > limit || offset+length+trailerLen > limit {
		return handle{}, nil, p.Errorf(at, "block of %d bytes at byte %d ends behind the file's %d", length, offset, limit)
	}
	return handle{int64(offset), int64(length)}, b[n+m:], nil
}

// readBlock reads the rows of a block. total counts the bytes of all blocks.
func readBlock(p *weights.Part, h handle, total *int64) ([]row, error) {
	whole, err := p.Bytes(h.offset, h.size+trailerLen)
	if err != nil {
		return nil, err
	}
	b, kind := whole[:h.size], whole[h.size]
	if got, want := crc32.Checksum(whole[:h.size+1], castagnoli), unmask(binary.LittleEndian.Uint32(whole[h.size+1:])); got != want {
		return nil, p.Errorf(h.offset, "block of %d bytes has the CRC-32C %08x, want %08x", h.size, got, want)
	}
	switch kind {
	case uncompressed:
	case snappyCompressed:
		n, err := snappy.DecodedLen(b)
		if err == nil && n > maxBlock {
			return nil, p.Errorf(h.offset, "block has %d bytes, want at most %d", n, maxBlock)
		}
		if err == nil {
			b, err = snappy.Decode(nil, b)
		}
		if err != nil {
			return nil, p.Errorf(h.offset, "block is not valid snappy: %w", err)
		}
	default:
		return nil, p.Errorf(h.offset+h.size, "block is compressed by method %d, want 0 (not at all) or 1 (snappy)", kind)
	}
	if *total += int64(len(b)); *total > maxTable {
		return nil, p.Errorf(h.offset, "table has more than %d bytes", maxTable)
	}
	// At the end are the places of rows with whole keys, for searching, and their number.
	if len(b) < 4 {
		return nil, p.Errorf(h.offset, "block of %d bytes, want at least 4", len(b))
	}
	restarts := int64(binary.LittleEndian.Uint32(b[len(b)-4:]))
	end := int64(len(b)) - 4 - 4*restarts
	if end < 0 {
		return nil, p.Errorf(h.offset, "block of %d bytes has %d restarts", len(b), restarts)
	}
	var rows []row
	var key []byte
	for at := int64(0); at < end; {
		where := h.offset
		if kind == uncompressed {
			where += at
		}
		var counts [3]uint64 // of the key: bytes shared with the one before, others; of the value
		for i := range counts {
			v, n := binary.Uvarint(b[at:end])
			if n <= 0 {
				return nil, p.Errorf(where, "row has no lengths")
			}
			counts[i] = v
			at += int64(n)
		}
		shared, more, size := counts[0], counts[1], counts[2]
		if left := uint64(end - at); shared > uint64(len(key)) || more > left || size > left-more {
			return nil, p.Errorf(where, "row shares %d bytes of %d with the one before and has %d and %d of its own, %d are left", shared,
				len(key), more, size, left)
		}
		if shared+more > maxKey {
			return nil, p.Errorf(where, "name of %d bytes, want at most %d", shared+more, maxKey)
		}
		key = append(key[:shared], b[at:at+int64(more)]...)
		at += int64(more)
		rows = append(rows, row{key: string(key), value: b[at : at+int64(size)], offset: where})
		at += int64(size)
		if *total += int64(len(key)); *total > maxTable {
			return nil, p.Errorf(where, "names of the table have more than %d bytes", maxTable)
		}
	}
	return rows, nil
}

// Numbers of TensorFlow's table_options.h.
const (
	blockSize       = 256 << 10
	restartInterval = 16
)

// tableWriter writes a table. Rows are put in the order of their keys.
type tableWriter struct {
	w      io.Writer
	offset int64
	data   blockWriter
	index  blockWriter
	ended  handle // of the last block, whose row in the index waits for the next key
	waits  bool
	last   string
}

func newTableWriter(w io.Writer) *tableWriter {
	return &tableWriter{w: w, data: blockWriter{interval: restartInterval}, index: blockWriter{interval: 1}}
}

func (t *tableWriter) put(key string, value []byte) error {
	if t.waits {
		t.index.put(separator(t.last, key), t.ended.bytes())
		t.waits = false
	}
	t.data.put(key, value)
	t.last = key
	if t.data.size() >= blockSize {
		return t.flush()
	}
	return nil
}

func (t *tableWriter) flush() (err error) {
	if t.ended, err = t.block(&t.data); err == nil {
		t.waits = true
	}
	return err
}

// close writes what is left, the index and the footer.
func (t *tableWriter) close() error {
	if len(t.data.buf) > 0 {
		if err := t.flush(); err != nil {
			return err
		}
	}
	meta, err := t.block(&blockWriter{interval: restartInterval})
	if err != nil {
		return err
	}
	if t.waits {
		t.index.put(successor(t.last), t.ended.bytes())
	}
	index, err := t.block(&t.index)
	if err != nil {
		return err
	}
	footer := append(meta.bytes(), index.bytes()...)
	footer = append(footer, make([]byte, footerLen-8-len(footer))...)
	_, err = t.w.Write(binary.LittleEndian.AppendUint64(footer, tableMagic))
	return err
}

// block writes a block that is not compressed, as TensorFlow's are, and empties it.
func (t *tableWriter) block(b *blockWriter) (handle, error) {
	text := b.finish()
	h := handle{t.offset, int64(len(text))}
	text = append(text, uncompressed)
	text = binary.LittleEndian.AppendUint32(text, mask(crc32.Checksum(text, castagnoli)))
	n, err := t.w.Write(text)
	t.offset += int64(n)
	return h, err
}

func (h handle) bytes() []byte {
	return binary.AppendUvarint(binary.AppendUvarint(nil, uint64(h.offset)), uint64(h.size))
}

// blockWriter collects the rows of a block. Every interval-th has its whole key.
type blockWriter struct {
	interval int
	buf      []byte
	restarts []uint32
	since    int // rows since the last restart
	last     string
}

func (b *blockWriter) size() int { return len(b.buf) + 4*max(1, len(b.restarts)) + 4 }

func (b *blockWriter) put(key string, value []byte) {
	shared := 0
	if len(b.restarts) == 0 || b.since == b.interval {
		b.restarts = append(b.restarts, uint32(len(b.buf)))
		b.since = 0
	} else {
		for shared < len(key) && shared < len(b.last) && key[shared] == b.last[shared] {
			shared++
		}
	}
	for _, n := range []int{shared, len(key) - shared, len(value)} {
		b.buf = binary.AppendUvarint(b.buf, uint64(n))
	}
	b.buf = append(append(b.buf, key[shared:]...), value...)
	b.last = key
	b.since++
}

func (b *blockWriter) finish() []byte {
	if len(b.restarts) == 0 {
		b.restarts = []uint32{0}
	}
	text := b.buf
	for _, r := range b.restarts {
		text = binary.LittleEndian.AppendUint32(text, r)
	}
	text = binary.LittleEndian.AppendUint32(text, uint32(len(b.restarts)))
	*b = blockWriter{interval: b.interval}
	return text
}

// separator is a short key from a to below b: leveldb/util/comparator.cc, FindShortestSeparator.
func separator(a, b string) string {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	if i < len(a) && i < len(b) && a[i] < 0xff && a[i]+1 < b[i] {
		return a[:i] + string([]byte{a[i] + 1})
	}
	return a
}

// successor is a short key that is not below a: FindShortSuccessor.
func successor(a string) string {
	for i := range len(a) {
		if a[i] != 0xff {
			return a[:i] + string([]byte{a[i] + 1})
		}
	}
	return a
}

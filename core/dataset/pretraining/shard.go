package pretraining

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math"

	"harness.invalid/core/bounded"
)

// A shard is a file of sequences that are not yet masked, little-endian:
//
//	16 bytes    "harness shard 1\n"
//	uint32      width: bytes of a token, 2 or 4
//	uint32      count of sequences
//	count x     sequence: uint16 FirstLength, the highest bit set for a random next sentence; its tokens
//	count+1 x   uint32 offset of a sequence, counted from the first one; the last is where they end
//	uint32      CRC-32C of all before
//
// The index at the end lets sequences be read in any order.
const (
	shardMagic   = "harness shard 1\n"
	shardHeader  = len(shardMagic) + 8
	randomNext   = 1 << 15
	maxShardSize = math.MaxUint32
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// tokenWidth is the number of bytes of a token of a vocabulary.
func tokenWidth(vocabulary int) int {
	if vocabulary <= 1<<16 {
		return 2
	}
	return 4
}

// appendSequence appends an instance in the format of a shard.
func appendSequence(to []byte, width int, i *Instance) []byte {
	head := uint16(i.FirstLength)
	if i.RandomNext {
		head |= randomNext
	}
	to = binary.LittleEndian.AppendUint16(to, head)
	for _, id := range i.InputIDs {
		if width == 2 {
			to = binary.LittleEndian.AppendUint16(to, uint16(id))
		} else {
			to = binary.LittleEndian.AppendUint32(to, uint32(id))
		}
	}
	return to
}

// writeShard writes sequences in order.
func writeShard(w io.Writer, width int, sequences [][]byte) error {
	sum := crc32.New(castagnoli)
	out := io.MultiWriter(w, sum)
	head := []byte(shardMagic)
	head = binary.LittleEndian.AppendUint32(head, uint32(width))
	head = binary.LittleEndian.AppendUint32(head, uint32(len(sequences)))
	if _, err := out.Write(head); err != nil {
		return err
	}
	index := make([]byte, 0, 4*len(sequences)+4)
	offset := int64(0)
	for _, s := range sequences {
		index = binary.LittleEndian.AppendUint32(index, uint32(offset))
		if _, err := out.Write(s); err != nil {
			return err
		}
		offset += int64(len(s))
	}
	if size := offset + int64(shardHeader+len(index)) + 8; size > maxShardSize {
		return fmt.Errorf("a shard of %d bytes, want at most %d: more shards", size, int64(maxShardSize))
	}
	index = binary.LittleEndian.AppendUint32(index, uint32(offset))
	if _, err := out.Write(index); err != nil {
		return err
	}
	_, err := w.Write(binary.LittleEndian.AppendUint32(nil, sum.Sum32()))
	return err
}

// shard is a file of sequences in memory.
type shard struct {
	name       string
	width      int
	count      int
	sequences  []byte
	index      []byte
	vocabulary int32
	length     int
}

// readShard reads a shard and checks it: its sum, its index, and that it holds as many sequences as the manifest says.
func readShard(path string, m *Manifest, s ShardInfo) (*shard, error) {
	data, err := bounded.ReadFile(path, maxShardSize)
	if err != nil {
		return nil, err
	}
	p, err := parseShard(path, data, m.VocabSize, m.Length)
	if err == nil && int64(p.count) != s.Sequences {
		err = fmt.Errorf("%s: %d sequences, the manifest says %d: %w", path, p.count, s.Sequences, ErrInvalid)
	}
	return p, err
}

func parseShard(name string, data []byte, vocabulary, length int) (*shard, error) {
	fail := func(format string, args ...any) (*shard, error) {
		return nil, fmt.Errorf("%s: %s: %w", name, fmt.Sprintf(format, args...), ErrInvalid)
	}
	if len(data) < shardHeader+8 || string(data[:len(shardMagic)]) != shardMagic {
		return fail("not a shard of prepared data")
	}
	body := data[:len(data)-4]
	if sum, want := crc32.Checksum(body, castagnoli), binary.LittleEndian.Uint32(data[len(body):]); sum != want {
		return fail("the sum of its bytes is %08x, at its end it says %08x: it is damaged", sum, want)
	}
	width := int(binary.LittleEndian.Uint32(data[len(shardMagic):]))
	count := int(binary.LittleEndian.Uint32(data[len(shardMagic)+4:]))
	if width != tokenWidth(vocabulary) {
		return fail("tokens of %d bytes, want %d for a vocabulary of %d", width, tokenWidth(vocabulary), vocabulary)
	}
	if count > (len(body)-shardHeader)/4-1 {
		return fail("%d sequences in %d bytes", count, len(data))
	}
	at := len(body) - 4*(count+1)
	s := &shard{name: name, width: width, count: count, sequences: body[shardHeader:at], index: body[at:],
		vocabulary: int32(min(vocabulary, math.MaxInt32)), length: length}
	before := 0
	for i := range count + 1 {
		offset := s.offset(i)
		if offset < before || offset > len(s.sequences) || i == 0 && offset != 0 || i == count && offset != len(s.sequences) {
			return fail("sequence %d begins at %d, the one before at %d, of %d bytes", i, offset, before, len(s.sequences))
		}
		before = offset
	}
	return s, nil
}

func (s *shard) offset(i int) int { return int(binary.LittleEndian.Uint32(s.index[4*i:])) }

// sequence reads a sequence into an instance without masks. It reuses the instance's memory.
func (s *shard) sequence(i int, into *Instance) error {
	data := s.sequences[s.offset(i):s.offset(i+1)]
	if len(data) < 2 || (len(data)-2)%s.width != 0 {
		return fmt.Errorf("%s: sequence %d: %d bytes: %w", s.name, i, len(data), ErrInvalid)
	}
	head := binary.LittleEndian.Uint16(data)
	n := (len(data) - 2) / s.width
	into.RandomNext, into.FirstLength = head&randomNext != 0, int(head&^randomNext)
	// [CLS] A [SEP] B [SEP], with at least one token in each segment
	if n < 5 || n > s.length || into.FirstLength < 3 || into.FirstLength > n-2 {
		return fmt.Errorf("%s: sequence %d: %d tokens, the first segment has %d, want 5 to %d and 3 to %d: %w", s.name, i, n,
			into.FirstLength, s.length, n-2, ErrInvalid)
	}
	into.InputIDs = into.InputIDs[:0]
	for j := range n {
		var id uint32
		if s.width == 2 {
			id = uint32(binary.LittleEndian.Uint16(data[2+2*j:]))
		} else {
			id = binary.LittleEndian.Uint32(data[2+4*j:])
		}
		if id >= uint32(s.vocabulary) {
			return fmt.Errorf("%s: sequence %d: token %d of a vocabulary of %d: %w", s.name, i, id, s.vocabulary, ErrInvalid)
		}
		into.InputIDs = append(into.InputIDs, int32(id))
	}
	return nil
}

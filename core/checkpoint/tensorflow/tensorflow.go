// Package tensorflow reads and writes TensorFlow's checkpoints in their second format (tf.train.Saver, V2), in
// which google-research/bert and others publish models.
//
// A checkpoint PREFIX is PREFIX.index, a sorted table from names to type, shape and place, and
// PREFIX.data-00000-of-00001 and further shards, which hold the tensors' bytes. Slots of optimizers are tensors
// like others, NAME/adam_m and NAME/adam_v. Open reads the table and maps the data; sums of tensors are checked
// when their values are first read.
//
// Source: tensorflow/core/util/tensor_bundle (BundleWriter), tensorflow/core/lib/io (table, which is LevelDB's),
// and tensor_bundle.proto.
package tensorflow

import (
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math"
	"os"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"harness.invalid/core/checkpoint/weights"
	"harness.invalid/core/tensor"
)

// Format is what weights.File.Format says of a checkpoint that was opened here.
const Format = "tensorflow checkpoint"

// IndexSuffix ends the name of a checkpoint's index.
const IndexSuffix = ".index"

// types are the types of elements by their numbers in types.proto. Strings are recognized but not read.
var types = map[uint64]tensor.DType{
	1: tensor.F32, 2: tensor.F64, 3: tensor.I32, 4: tensor.U8, 5: "I16", 6: "I8", 8: "C64", 9: tensor.I64, 10: tensor.Bool, 14: tensor.BF16,
	17: "U16", 19: tensor.F16, 22: "U32", 23: "U64",
}

const textType = 7

// castagnoli is the polynomial of a checkpoint's sums.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// mask transforms a sum that is stored beside its data: tensorflow/core/lib/hash/crc32c.h.
func mask(crc uint32) uint32   { return (crc>>15 | crc<<17) + 0xa282ead8 }
func unmask(crc uint32) uint32 { crc -= 0xa282ead8; return crc>>17 | crc<<15 }

// Prefix is the name of the checkpoint that a file belongs to: a prefix stays as it is, and PREFIX.index,
// PREFIX.data-..., and PREFIX.meta lose their endings.
func Prefix(path string) string {
	for _, suffix := range []string{IndexSuffix, ".meta"} {
		if p, ok := strings.CutSuffix(path, suffix); ok {
			return p
		}
	}
	if i := strings.LastIndex(path, ".data-"); i >= 0 && len(path)-i == len(".data-00000-of-00001") {
		return path[:i]
	}
	return path
}

// shardPath is where a shard of a checkpoint lies.
func shardPath(prefix string, shard, shards uint64) string {
	return fmt.Sprintf("%s.data-%05d-of-%05d", prefix, shard, shards)
}

// Open reads the index of a checkpoint and maps its shards into memory. path is the checkpoint's prefix or one of
// its files. Tensors are in the order of their names.
func Open(path string) (*weights.File, error) {
	prefix := Prefix(path)
	index, err := weights.OpenPart(prefix + IndexSuffix)
	if err != nil {
		return nil, err
	}
	f, err := open(prefix, index, func(shard, shards uint64) (*weights.Part, error) {
		p, err := weights.OpenPart(shardPath(prefix, shard, shards))
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("checkpoint %s: shard %d of %d is missing: %w", prefix, shard, shards, err)
		}
		return p, err
	})
	return f, errors.Join(err, index.Close()) // the index is no longer needed
}

// maxShards is the greatest number of files a checkpoint may have.
const maxShards = 1 << 10

// open reads a checkpoint whose index is given and whose shards are found by a function.
func open(name string, index *weights.Part, find func(shard, shards uint64) (*weights.Part, error)) (f *weights.File, err error) {
	rows, err := readTable(index)
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 || rows[0].key != "" {
		return nil, index.Errorf(0, "index has no header")
	}
	shards, err := readHeader(index, rows[0])
	if err != nil {
		return nil, err
	}
	var parts []*weights.Part
	defer func() {
		if err != nil {
			for _, p := range parts {
				err = errors.Join(err, p.Close())
			}
		}
	}()
	for i := range shards {
		p, err := find(i, shards)
		if err != nil {
			return nil, err
		}
		parts = append(parts, p)
	}
	var tensors []weights.Tensor
	metadata := make(map[string]string)
	for _, r := range rows[1:] {
		e, err := readEntry(index, r)
		if err != nil {
			return nil, err
		}
		switch {
		case e.dtype == textType:
			metadata[r.key] = fmt.Sprintf("text of %d bytes, which is not read", e.size)
			continue
		case types[e.dtype] == "":
			return nil, index.Errorf(r.offset, "tensor %s is of type %d, which is not known", weights.Quote(r.key), e.dtype)
		case e.sliced:
			return nil, index.Errorf(r.offset, "tensor %s is stored in slices: save the checkpoint again without partitioned variables",
				weights.Quote(r.key))
		case e.shard >= shards:
			return nil, index.Errorf(r.offset, "tensor %s is in shard %d of %d", weights.Quote(r.key), e.shard, shards)
		case e.offset < 0 || e.size < 0:
			return nil, index.Errorf(r.offset, "tensor %s is at %d with %d bytes", weights.Quote(r.key), e.offset, e.size)
		}
		t, err := parts[e.shard].Tensor(r.key, types[e.dtype], e.shape, e.offset)
		if err != nil {
			return nil, err
		}
		if t.ByteLen() != e.size {
			return nil, index.Errorf(r.offset, "tensor %s has %d bytes, want %d for %s %v", weights.Quote(r.key), e.size, t.ByteLen(),
				t.DType, t.Shape)
		}
		tensors = append(tensors, t.Checked(parts[e.shard].Sum(e.offset, e.size, castagnoli, unmask(e.crc))))
	}
	if err := apart(tensors); err != nil {
		return nil, err
	}
	return weights.New(name, Format, tensors, metadata, parts...)
}

// apart reports tensors that overlap.
func apart(tensors []weights.Tensor) error {
	ends := make(map[*weights.Part]weights.Tensor)
	sorted := slices.Clone(tensors)
	slices.SortStableFunc(sorted, func(a, b weights.Tensor) int {
		return cmp.Or(cmp.Compare(a.Offset(), b.Offset()), cmp.Compare(a.ByteLen(), b.ByteLen()))
	})
	for _, t := range sorted {
		if before, ok := ends[t.Part()]; ok && before.Offset()+before.ByteLen() > t.Offset() {
			return t.Part().Errorf(t.Offset(), "tensor %s overlaps with tensor %s", weights.Quote(t.Name), weights.Quote(before.Name))
		}
		ends[t.Part()] = t
	}
	return nil
}

// readHeader reads a BundleHeaderProto and returns the number of shards.
func readHeader(p *weights.Part, r row) (shards uint64, err error) {
	bigEndian := false
	err = fields(r.value, func(number protowire.Number, v uint64, _ []byte) error {
		switch number {
		case 1: // num_shards
			shards = v
		case 2: // endianness
			bigEndian = v != 0
		}
		return nil
	})
	switch {
	case err != nil:
		return 0, p.Errorf(r.offset, "header: %w", err)
	case bigEndian:
		return 0, p.Errorf(r.offset, "the checkpoint was written by a big-endian machine")
	case shards < 1 || shards > maxShards:
		return 0, p.Errorf(r.offset, "%d shards, want 1 to %d", shards, maxShards)
	}
	return shards, nil
}

// entry is a BundleEntryProto.
type entry struct {
	dtype, shard uint64
	shape        tensor.Shape
	offset, size int64
	crc          uint32
	sliced       bool
}

func readEntry(p *weights.Part, r row) (e entry, err error) {
	e.shape = tensor.Shape{}
	err = fields(r.value, func(number protowire.Number, v uint64, b []byte) error {
		switch number {
		case 1:
			e.dtype = v
		case 2:
			return readShape(b, &e.shape)
		case 3:
			e.shard = v
		case 4:
			e.offset = int64(v)
		case 5:
			e.size = int64(v)
		case 6:
			e.crc = uint32(v)
		case 7:
			e.sliced = true
		}
		return nil
	})
	if err != nil {
		return e, p.Errorf(r.offset, "tensor %s: %w", weights.Quote(r.key), err)
	}
	return e, nil
}

// maxAxes is the greatest number of axes of TensorFlow's tensors (TensorShape::MaxDimensions).
const maxAxes = 254

// readShape reads a TensorShapeProto.
func readShape(b []byte, shape *tensor.Shape) error {
	return fields(b, func(number protowire.Number, v uint64, b []byte) error {
		switch number {
		case 2: // dim
			extent := uint64(0)
			if err := fields(b, func(number protowire.Number, v uint64, _ []byte) error {
				if number == 1 { // size
					extent = v
				}
				return nil
			}); err != nil {
				return err
			}
			if extent > math.MaxInt {
				return fmt.Errorf("shape has the extent %d", int64(extent))
			}
			if *shape = append(*shape, int(extent)); len(*shape) > maxAxes {
				return fmt.Errorf("shape has more than %d axes", maxAxes)
			}
		case 3: // unknown_rank
			if v != 0 {
				return errors.New("shape is not known")
			}
		}
		return nil
	})
}

// fields visits the fields of a protocol buffer: v of numbers, b of bytes.
func fields(b []byte, use func(number protowire.Number, v uint64, b []byte) error) error {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		var v uint64
		var bytes []byte
		switch kind {
		case protowire.VarintType:
			v, n = protowire.ConsumeVarint(b)
		case protowire.Fixed32Type:
			var short uint32
			short, n = protowire.ConsumeFixed32(b)
			v = uint64(short)
		case protowire.Fixed64Type:
			v, n = protowire.ConsumeFixed64(b)
		case protowire.BytesType:
			bytes, n = protowire.ConsumeBytes(b)
		default:
			return fmt.Errorf("field %d is of kind %d", number, kind)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		if err := use(number, v, bytes); err != nil {
			return err
		}
	}
	return nil
}

// IsCheckpoint reports whether path is a checkpoint's prefix or one of its files.
func IsCheckpoint(path string) bool {
	info, err := os.Stat(Prefix(path) + IndexSuffix)
	return err == nil && info.Mode().IsRegular()
}

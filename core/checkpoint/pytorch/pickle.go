package pytorch

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"harness.invalid/core/checkpoint/weights"
	"harness.invalid/core/tensor"
)

// A pickle is a program for a stack machine whose REDUCE calls any function of any Python module: loading one in
// Python runs what its author wrote. The machine here has no functions. It knows the names below, builds plain data
// and tensors from them, and stops at every other name.
//
// Source: CPython, Lib/pickletools.py (opcodes of protocols 2 to 5) and torch/serialization.py, torch/_utils.py
// (what torch.save writes with them).

// The values of the machine: nil, bool, int64, float64, string, []byte, and those below.
type (
	// bigInt is a whole number that does not fit in an int64: its little-endian two's complement.
	bigInt string
	// global is the name of a Python object, MODULE.NAME.
	global string
	// tuple can't be changed once built.
	tuple []any
	// list is also a set.
	list struct{ items []any }
	// dict has its keys in the order in which they came.
	dict struct{ keys, values []any }
	// storage is an array of elements, in a file of its own in the archive or behind the pickles.
	storage struct {
		key    string
		dtype  tensor.DType
		len    int64 // in elements
		offset int64 // in bytes from the start of the file; -1 as long as it is not known
		sum    *weights.Sum
	}
	// view is a tensor: a part of a storage.
	view struct {
		storage *storage
		offset  int64 // in elements
		shape   tensor.Shape
		strides []int64
		at      int64 // byte of the instruction that made it
	}
	// mark is where a list of arguments begins on the stack.
	mark struct{}
)

// storages are the types of elements by the classes that stand for them (torch/storage.py).
var storages = map[global]tensor.DType{
	"torch.DoubleStorage": tensor.F64, "torch.FloatStorage": tensor.F32, "torch.HalfStorage": tensor.F16, "torch.BFloat16Storage": tensor.BF16,
	"torch.LongStorage": tensor.I64, "torch.IntStorage": tensor.I32, "torch.ShortStorage": "I16", "torch.CharStorage": "I8",
	"torch.ByteStorage": tensor.U8, "torch.BoolStorage": tensor.Bool,
}

// calls are all that REDUCE can do.
var calls = map[global]func(m *machine, args tuple) (any, error){
	"collections.OrderedDict":                    makeDict,
	"torch._utils._rebuild_tensor_v2":            makeTensor,
	"torch._utils._rebuild_tensor":               makeTensor,
	"torch._utils._rebuild_parameter":            first,
	"torch._utils._rebuild_parameter_with_state": first,
	"torch.Size":          first,
	"torch.device":        first,
	"builtins.set":        first,
	"__builtin__.set":     first,
	"_codecs.encode":      first, // how protocol 2 writes bytes
	"collections.Counter": makeDict,
}

// machine runs one pickle.
type machine struct {
	part  *weights.Part
	code  []byte // the pickle, and what follows it
	start int64  // byte of the file where code begins
	pos   int    // of the next instruction or argument
	op    int    // of the instruction under way
	stack []any
	memo  map[uint64]any
	spent int // work done, in instructions, items copied, and pieces of names
	// persistent finds what a storage's id stands for.
	persistent func(id tuple) (*storage, error)
}

// errorf is an error at the instruction under way.
func (m *machine) errorf(format string, args ...any) error {
	return m.part.Errorf(m.start+int64(m.op), "pickle: "+format, args...)
}

// run reads a pickle to its end and returns what it makes. pos is behind it then.
func (m *machine) run() (any, error) {
	m.stack, m.memo = nil, make(map[uint64]any)
	for {
		m.op = m.pos
		if err := m.spend(1); err != nil {
			return nil, err
		}
		code, err := m.take(1)
		if err != nil {
			return nil, err
		}
		if code[0] == '.' { // STOP
			v, err := m.pop()
			if err != nil {
				return nil, err
			}
			if len(m.stack) > 0 {
				return nil, m.errorf("%d values are left at the end, want none", len(m.stack))
			}
			return v, nil
		}
		if err := m.step(code[0]); err != nil {
			return nil, err
		}
	}
}

// budget is the greatest amount of work for one file. A state_dict of BERT-Large, 399 tensors, takes 12,254
// instructions.
const budget = 1 << 22

// spend counts work, so that a hostile file can't keep the machine busy or fill the memory.
func (m *machine) spend(n int) error {
	if m.spent += n; m.spent > budget {
		return m.errorf("more than %d instructions and items", budget)
	}
	return nil
}

// step runs one instruction.
func (m *machine) step(code byte) error {
	switch code {
	case 0x80: // PROTO
		version, err := m.take(1)
		if err == nil && (version[0] < 2 || version[0] > 5) {
			return m.errorf("protocol %d, want 2 to 5", version[0])
		}
		return err
	case 0x95: // FRAME: a hint for readers of streams
		_, err := m.take(8)
		return err
	case '(': // MARK
		m.push(mark{})
	case '0': // POP
		_, err := m.pop()
		return err
	case 'N': // NONE
		m.push(nil)
	case 0x88: // NEWTRUE
		m.push(true)
	case 0x89: // NEWFALSE
		m.push(false)
	case 'K', 'M', 'J': // BININT1, BININT2, BININT
		size := map[byte]int{'K': 1, 'M': 2, 'J': 4}[code]
		b, err := m.take(size)
		if err != nil {
			return err
		}
		v := int64(little(b))
		if code == 'J' {
			v = int64(int32(v))
		}
		m.push(v)
	case 0x8a, 0x8b: // LONG1, LONG4
		b, err := m.counted(map[byte]int{0x8a: 1, 0x8b: 4}[code])
		if err != nil {
			return err
		}
		m.push(long(b))
	case 'G': // BINFLOAT
		b, err := m.take(8)
		if err != nil {
			return err
		}
		m.push(math.Float64frombits(binary.BigEndian.Uint64(b)))
	case 'X', 0x8c, 0x8d, 'U', 'T': // BINUNICODE, SHORT_BINUNICODE, BINUNICODE8, SHORT_BINSTRING, BINSTRING
		b, err := m.counted(map[byte]int{'X': 4, 0x8c: 1, 0x8d: 8, 'U': 1, 'T': 4}[code])
		if err != nil {
			return err
		}
		if !utf8.Valid(b) {
			return m.errorf("text %q is not UTF-8", weights.Clip(string(b)))
		}
		m.push(string(b))
	case 'B', 'C', 0x8e: // BINBYTES, SHORT_BINBYTES, BINBYTES8
		b, err := m.counted(map[byte]int{'B': 4, 'C': 1, 0x8e: 8}[code])
		if err != nil {
			return err
		}
		m.push(b)
	case ')': // EMPTY_TUPLE
		m.push(tuple(nil))
	case 0x85, 0x86, 0x87: // TUPLE1, TUPLE2, TUPLE3
		items, err := m.popN(int(code) - 0x84)
		if err != nil {
			return err
		}
		m.push(tuple(items))
	case 't': // TUPLE
		items, err := m.popMark()
		if err != nil {
			return err
		}
		m.push(tuple(items))
	case ']', 0x8f: // EMPTY_LIST, EMPTY_SET
		m.push(&list{})
	case '}': // EMPTY_DICT
		m.push(&dict{})
	case 'a', 'e', 0x90: // APPEND, APPENDS, ADDITEMS
		return m.extend(code == 'a')
	case 's', 'u': // SETITEM, SETITEMS
		return m.setItems(code == 's')
	case 'q', 'r', 0x94: // BINPUT, LONG_BINPUT, MEMOIZE
		return m.put(code)
	case 'h', 'j': // BINGET, LONG_BINGET
		b, err := m.take(map[byte]int{'h': 1, 'j': 4}[code])
		if err != nil {
			return err
		}
		v, ok := m.memo[little(b)]
		if !ok {
			return m.errorf("value %d is used before it was kept", little(b))
		}
		m.push(v)
	case 'c': // GLOBAL
		module, err := m.line()
		if err != nil {
			return err
		}
		name, err := m.line()
		if err != nil {
			return err
		}
		return m.name(module, name)
	case 0x93: // STACK_GLOBAL
		names, err := m.popN(2)
		if err != nil {
			return err
		}
		module, ok := names[0].(string)
		name, ok2 := names[1].(string)
		if !ok || !ok2 {
			return m.errorf("a name is made of %T and %T, want text", names[0], names[1])
		}
		return m.name(module, name)
	case 'R': // REDUCE
		return m.reduce()
	case 'b': // BUILD: attributes, such as a state_dict's _metadata
		v, err := m.popN(2)
		if err != nil {
			return err
		}
		if _, ok := v[0].(*dict); !ok {
			return m.errorf("attributes are set on %s, which can't have any here", describe(v[0]))
		}
		m.push(v[0])
	case 'Q': // BINPERSID
		v, err := m.pop()
		if err != nil {
			return err
		}
		id, ok := v.(tuple)
		if !ok {
			return m.errorf("a storage's id is %s, want a tuple", describe(v))
		}
		s, err := m.persistent(id)
		if err != nil {
			return err
		}
		m.push(s)
	default:
		return m.errorf("instruction 0x%02x is none that torch.save writes", code)
	}
	return nil
}

// take returns the next n bytes of the code.
func (m *machine) take(n int) ([]byte, error) {
	if n > len(m.code)-m.pos {
		return nil, m.part.Errorf(m.start+int64(len(m.code)), "pickle: file ends inside of it: the instruction at byte %d "+
			"wants %d bytes, %d are left", m.start+int64(m.op), n, len(m.code)-m.pos)
	}
	b := m.code[m.pos : m.pos+n]
	m.pos += n
	return b, nil
}

// counted returns the bytes behind a count of a size in bytes.
func (m *machine) counted(size int) ([]byte, error) {
	b, err := m.take(size)
	if err != nil {
		return nil, err
	}
	n := little(b)
	if n > uint64(len(m.code)-m.pos) {
		return nil, m.errorf("%d bytes follow, but %d are left", n, len(m.code)-m.pos)
	}
	return m.take(int(n))
}

// line returns the text up to the next line break.
func (m *machine) line() (string, error) {
	n := bytes.IndexByte(m.code[m.pos:], '\n')
	if n < 0 {
		return "", m.errorf("a name has no end")
	}
	b, err := m.take(n + 1)
	return string(b[:n]), err
}

func little(b []byte) uint64 {
	v := uint64(0)
	for i, x := range b {
		v |= uint64(x) << (8 * i)
	}
	return v
}

// long reads a little-endian number in two's complement.
func long(b []byte) any {
	if len(b) > 8 {
		return bigInt(b)
	}
	if len(b) == 0 {
		return int64(0)
	}
	v := little(b)
	if shift := 64 - 8*len(b); shift > 0 {
		return int64(v<<shift) >> shift
	}
	return int64(v)
}

func (m *machine) push(v any) { m.stack = append(m.stack, v) }

func (m *machine) pop() (any, error) {
	v, err := m.popN(1)
	if err != nil {
		return nil, err
	}
	return v[0], nil
}

// popN takes the last n values, none of which may be a mark.
func (m *machine) popN(n int) ([]any, error) {
	if n > len(m.stack) {
		return nil, m.errorf("%d values are wanted, %d are there", n, len(m.stack))
	}
	values := append([]any(nil), m.stack[len(m.stack)-n:]...)
	for _, v := range values {
		if _, ok := v.(mark); ok {
			return nil, m.errorf("%d values are wanted, and a mark is among them", n)
		}
	}
	m.stack = m.stack[:len(m.stack)-n]
	return values, nil
}

// popMark takes the values behind the last mark.
func (m *machine) popMark() ([]any, error) {
	for i := len(m.stack) - 1; i >= 0; i-- {
		if _, ok := m.stack[i].(mark); ok {
			values := append([]any(nil), m.stack[i+1:]...)
			m.stack = m.stack[:i]
			return values, nil
		}
	}
	return nil, m.errorf("no mark is there")
}

// arguments takes one value or, without one, those behind the last mark.
func (m *machine) arguments(n int) ([]any, error) {
	if n > 0 {
		return m.popN(n)
	}
	return m.popMark()
}

// top is the last value, which stays.
func (m *machine) top() (any, error) {
	if len(m.stack) == 0 {
		return nil, m.errorf("no value is there")
	}
	return m.stack[len(m.stack)-1], nil
}

func (m *machine) extend(one bool) error {
	n := 0
	if one {
		n = 1
	}
	items, err := m.arguments(n)
	if err != nil {
		return err
	}
	v, err := m.top()
	if err != nil {
		return err
	}
	l, ok := v.(*list)
	if !ok {
		return m.errorf("items are added to %s, want a list", describe(v))
	}
	l.items = append(l.items, items...)
	return nil
}

func (m *machine) setItems(one bool) error {
	n := 0
	if one {
		n = 2
	}
	items, err := m.arguments(n)
	if err != nil {
		return err
	}
	v, err := m.top()
	if err != nil {
		return err
	}
	d, ok := v.(*dict)
	if !ok || len(items)%2 != 0 {
		return m.errorf("%d keys and values are put into %s, want pairs for a dict", len(items), describe(v))
	}
	for i := 0; i < len(items); i += 2 {
		d.keys, d.values = append(d.keys, items[i]), append(d.values, items[i+1])
	}
	return nil
}

func (m *machine) put(code byte) error {
	at := uint64(len(m.memo))
	if code != 0x94 {
		b, err := m.take(map[byte]int{'q': 1, 'r': 4}[code])
		if err != nil {
			return err
		}
		at = little(b)
	}
	v, err := m.top()
	if err != nil {
		return err
	}
	if _, ok := v.(mark); ok {
		return m.errorf("a mark can't be kept")
	}
	m.memo[at] = v
	return nil
}

// name puts a name on the stack if the machine knows what it means.
func (m *machine) name(module, name string) error {
	g := global(module + "." + name)
	if storages[g] == "" && calls[g] == nil {
		return m.errorf("the file wants Python's %s, and only plain data and tensors are read: code in it is never run", weights.Quote(string(g)))
	}
	m.push(g)
	return nil
}

func (m *machine) reduce() error {
	v, err := m.popN(2)
	if err != nil {
		return err
	}
	g, ok := v[0].(global)
	args, ok2 := v[1].(tuple)
	if !ok || !ok2 || calls[g] == nil {
		return m.errorf("%s is called with %s", describe(v[0]), describe(v[1]))
	}
	made, err := calls[g](m, args)
	if err != nil {
		return err
	}
	m.push(made)
	return nil
}

// first stands for constructors whose first argument is all that matters: a tensor for its parameter, the numbers
// for a torch.Size.
func first(m *machine, args tuple) (any, error) {
	if len(args) == 0 {
		return &list{}, nil
	}
	return args[0], nil
}

func makeDict(m *machine, args tuple) (any, error) {
	d := &dict{}
	if len(args) == 0 {
		return d, nil
	}
	if source, ok := args[0].(*dict); ok && len(args) == 1 {
		return source, nil
	}
	pairs, ok := args[0].(*list)
	if !ok || len(args) != 1 {
		return nil, m.errorf("a dict is made of %s", describe(args[0]))
	}
	if err := m.spend(len(pairs.items)); err != nil {
		return nil, err
	}
	for _, p := range pairs.items {
		var key, value any
		switch p := p.(type) {
		case tuple:
			if len(p) != 2 {
				return nil, m.errorf("a dict's item has %d parts, want 2", len(p))
			}
			key, value = p[0], p[1]
		case *list:
			if len(p.items) != 2 {
				return nil, m.errorf("a dict's item has %d parts, want 2", len(p.items))
			}
			key, value = p.items[0], p.items[1]
		default:
			return nil, m.errorf("a dict's item is %s, want a pair", describe(p))
		}
		d.keys, d.values = append(d.keys, key), append(d.values, value)
	}
	return d, nil
}

// makeTensor is _rebuild_tensor_v2(storage, storage_offset, size, stride, requires_grad, backward_hooks).
func makeTensor(m *machine, args tuple) (any, error) {
	if len(args) < 4 {
		return nil, m.errorf("a tensor is made of %d values, want storage, offset, size and stride", len(args))
	}
	s, ok := args[0].(*storage)
	offset, ok2 := args[1].(int64)
	if !ok || !ok2 || offset < 0 {
		return nil, m.errorf("a tensor is made of %s at %s, want a storage and an offset", describe(args[0]), describe(args[1]))
	}
	v := &view{storage: s, offset: offset, shape: tensor.Shape{}, at: m.start + int64(m.op)}
	size, err := m.numbers("size", args[2])
	if err != nil {
		return nil, err
	}
	for _, n := range size {
		if n > math.MaxInt {
			return nil, m.errorf("an extent of %d is too large", n)
		}
		v.shape = append(v.shape, int(n))
	}
	if v.strides, err = m.numbers("stride", args[3]); err != nil {
		return nil, err
	}
	return v, nil
}

func (m *machine) numbers(what string, v any) ([]int64, error) {
	t, ok := v.(tuple)
	if !ok {
		return nil, m.errorf("a tensor's %s is %s, want a tuple", what, describe(v))
	}
	values := make([]int64, len(t))
	for i, v := range t {
		n, ok := v.(int64)
		if !ok || n < 0 {
			return nil, m.errorf("a tensor's %s holds %s, want whole numbers of at least 0", what, describe(v))
		}
		values[i] = n
	}
	return values, nil
}

// describe is a value in an error.
func describe(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool, int64, float64:
		return fmt.Sprint(v)
	case string:
		return weights.Quote(v)
	case bigInt:
		return fmt.Sprintf("a number of %d bytes", len(v))
	case global:
		return string(v)
	case []byte:
		return fmt.Sprintf("%d bytes", len(v))
	case tuple:
		return fmt.Sprintf("a tuple of %d", len(v))
	case *list:
		return fmt.Sprintf("a list of %d", len(v.items))
	case *dict:
		return fmt.Sprintf("a dict of %d", len(v.keys))
	case *storage:
		return "a storage"
	case *view:
		return fmt.Sprintf("a tensor of shape %v", v.shape)
	}
	return "a mark"
}

// collector gives names to the tensors in a value: keys and places joined by "/". Other plain values become
// metadata under such names.
type collector struct {
	machine  *machine
	views    []*view
	names    []string
	metadata map[string]string
	within   map[any]bool // containers around the one under way
}

// Limits on what references to the same values can unfold into, beside the budget.
const (
	maxDepth    = 100
	maxName     = 1 << 12
	maxMetadata = 1 << 12
)

func (c *collector) collect(name string, v any) error {
	if err := c.machine.spend(1 + len(name)/8); err != nil {
		return err
	}
	if len(name) > maxName {
		return c.machine.errorf("a tensor's name has more than %d bytes", maxName)
	}
	at := func(key string) string {
		if name == "" {
			return key
		}
		return name + "/" + key
	}
	each := func(id any, keys, values []any) error {
		if c.within[id] {
			return c.machine.errorf("%s holds itself", weights.Quote(name))
		}
		if len(c.within) > maxDepth {
			return c.machine.errorf("%s lies deeper than %d", weights.Quote(name), maxDepth)
		}
		c.within[id] = true
		defer delete(c.within, id)
		for i, v := range values {
			key := strconv.Itoa(i)
			if keys != nil {
				switch k := keys[i].(type) {
				case string:
					key = k
				case int64:
					key = strconv.FormatInt(k, 10)
				default:
					return c.machine.errorf("%s has %s as a key, want text or a whole number", weights.Quote(name), describe(k))
				}
			}
			if err := c.collect(at(key), v); err != nil {
				return err
			}
		}
		return nil
	}
	switch v := v.(type) {
	case *view:
		c.views, c.names = append(c.views, v), append(c.names, name)
	case *dict:
		return each(v, v.keys, v.values)
	case *list:
		return each(v, nil, v.items)
	case tuple:
		if len(v) > 0 {
			return each(&v[0], nil, v)
		}
	case bool, int64, float64, string:
		if len(c.metadata) < maxMetadata {
			c.metadata[name] = weights.Clip(fmt.Sprint(v))
		}
	}
	return nil
}

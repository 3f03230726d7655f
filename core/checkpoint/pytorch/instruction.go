package pytorch

import (
	"encoding/binary"
	"math"
	"unicode/utf8"

	"harness.invalid/core/checkpoint/weights"
)

// instructions are those that torch.save writes, by opcode. STOP, '.', ends run.
var instructions = [256]func(m *machine) error{
	0x80: (*machine).protocol, // PROTO
	0x95: (*machine).frame,    // FRAME

	'N':  constant(nil),            // NONE
	0x88: constant(true),           // NEWTRUE
	0x89: constant(false),          // NEWFALSE
	'K':  whole(1),                 // BININT1
	'M':  whole(2),                 // BININT2
	'J':  (*machine).signed,        // BININT
	0x8a: long(1),                  // LONG1
	0x8b: long(4),                  // LONG4
	'G':  (*machine).floatingPoint, // BINFLOAT

	'X':  text(4), // BINUNICODE
	0x8c: text(1), // SHORT_BINUNICODE
	0x8d: text(8), // BINUNICODE8
	'T':  text(4), // BINSTRING
	'U':  text(1), // SHORT_BINSTRING
	'B':  raw(4),  // BINBYTES
	'C':  raw(1),  // SHORT_BINBYTES
	0x8e: raw(8),  // BINBYTES8

	')':  constant(tuple(nil)),                                      // EMPTY_TUPLE
	0x85: tupleOf(1),                                                // TUPLE1
	0x86: tupleOf(2),                                                // TUPLE2
	0x87: tupleOf(3),                                                // TUPLE3
	't':  (*machine).markedTuple,                                    // TUPLE
	']':  func(m *machine) error { m.push(&list{}); return nil },    // EMPTY_LIST
	0x8f: func(m *machine) error { m.push(&list{}); return nil },    // EMPTY_SET
	'}':  func(m *machine) error { m.push(&dict{}); return nil },    // EMPTY_DICT
	'a':  func(m *machine) error { return m.extend(m.popN(1)) },     // APPEND
	'e':  func(m *machine) error { return m.extend(m.popMark()) },   // APPENDS
	0x90: func(m *machine) error { return m.extend(m.popMark()) },   // ADDITEMS
	's':  func(m *machine) error { return m.setItems(m.popN(2)) },   // SETITEM
	'u':  func(m *machine) error { return m.setItems(m.popMark()) }, // SETITEMS

	'(':  constant(mark{}),                                             // MARK
	'0':  func(m *machine) error { _, err := m.pop(); return err },     // POP
	'q':  putAt(1),                                                     // BINPUT
	'r':  putAt(4),                                                     // LONG_BINPUT
	0x94: func(m *machine) error { return m.put(uint64(len(m.memo))) }, // MEMOIZE
	'h':  get(1),                                                       // BINGET
	'j':  get(4),                                                       // LONG_BINGET

	'c':  (*machine).globalLines, // GLOBAL
	0x93: (*machine).globalStack, // STACK_GLOBAL
	'R':  (*machine).reduce,      // REDUCE
	'b':  (*machine).build,       // BUILD
	'Q':  (*machine).storage,     // BINPERSID
}

func (m *machine) protocol() error {
	version, err := m.take(1)
	if err == nil && (version[0] < 2 || version[0] > 5) {
		return m.errorf("protocol %d, want 2 to 5", version[0])
	}
	return err
}

// frame skips a hint for readers of streams.
func (m *machine) frame() error {
	_, err := m.take(8)
	return err
}

func constant(v any) func(*machine) error {
	return func(m *machine) error {
		m.push(v)
		return nil
	}
}

// whole is a number without a sign, of size bytes.
func whole(size int) func(*machine) error {
	return func(m *machine) error {
		b, err := m.take(size)
		if err != nil {
			return err
		}
		m.push(int64(little(b)))
		return nil
	}
}

func (m *machine) signed() error {
	b, err := m.take(4)
	if err != nil {
		return err
	}
	m.push(int64(int32(little(b))))
	return nil
}

// long is a number of any length, behind a count of size bytes.
func long(size int) func(*machine) error {
	return func(m *machine) error {
		b, err := m.counted(size)
		if err != nil {
			return err
		}
		m.push(twosComplement(b))
		return nil
	}
}

func (m *machine) floatingPoint() error {
	b, err := m.take(8)
	if err != nil {
		return err
	}
	m.push(math.Float64frombits(binary.BigEndian.Uint64(b)))
	return nil
}

func text(size int) func(*machine) error {
	return func(m *machine) error {
		b, err := m.counted(size)
		if err != nil {
			return err
		}
		if !utf8.Valid(b) {
			return m.errorf("text %q is not UTF-8", weights.Clip(string(b)))
		}
		m.push(string(b))
		return nil
	}
}

func raw(size int) func(*machine) error {
	return func(m *machine) error {
		b, err := m.counted(size)
		if err != nil {
			return err
		}
		m.push(b)
		return nil
	}
}

func tupleOf(n int) func(*machine) error {
	return func(m *machine) error {
		items, err := m.popN(n)
		if err != nil {
			return err
		}
		m.push(tuple(items))
		return nil
	}
}

func (m *machine) markedTuple() error {
	items, err := m.popMark()
	if err != nil {
		return err
	}
	m.push(tuple(items))
	return nil
}

// extend adds items that were taken off the stack to the list below them.
func (m *machine) extend(items []any, err error) error {
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

// setItems adds keys and values that were taken off the stack to the dict below them.
func (m *machine) setItems(items []any, err error) error {
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

// put keeps the top of the stack in the memo.
func (m *machine) put(at uint64) error {
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

func putAt(size int) func(*machine) error {
	return func(m *machine) error {
		b, err := m.take(size)
		if err != nil {
			return err
		}
		return m.put(little(b))
	}
}

// get pushes a value from the memo.
func get(size int) func(*machine) error {
	return func(m *machine) error {
		b, err := m.take(size)
		if err != nil {
			return err
		}
		v, ok := m.memo[little(b)]
		if !ok {
			return m.errorf("value %d is used before it was kept", little(b))
		}
		m.push(v)
		return nil
	}
}

// globalLines is a name in two lines of the pickle: module and object.
func (m *machine) globalLines() error {
	module, err := m.line()
	if err != nil {
		return err
	}
	name, err := m.line()
	if err != nil {
		return err
	}
	return m.name(module, name)
}

// globalStack is a name whose two parts are on the stack.
func (m *machine) globalStack() error {
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
}

// build sets attributes, such as a state_dict's _metadata, which are dropped.
func (m *machine) build() error {
	v, err := m.popN(2)
	if err != nil {
		return err
	}
	if _, ok := v[0].(*dict); !ok {
		return m.errorf("attributes are set on %s, which can't have any here", describe(v[0]))
	}
	m.push(v[0])
	return nil
}

// storage replaces a storage's id by the storage.
func (m *machine) storage() error {
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
	return nil
}

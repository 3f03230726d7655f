package pytorch

import (
	"bytes"

	"harness.invalid/core/checkpoint/weights"
)

// A pickle is a program for a stack machine whose REDUCE calls any function of any Python module: loading one in
// Python runs its author's code. The machine here calls nothing. It knows the names in storages and calls, builds
// plain data and tensors from them, and stops at any other name.
//
// Source: CPython, Lib/pickletools.py (opcodes of protocols 2 to 5) and torch/serialization.py, torch/_utils.py
// (what torch.save writes with them).

// machine runs one pickle.
type machine struct {
	part  *weights.Part
	code  []byte // the pickle, and what follows it
	start int64  // byte of the file where code begins
	pos   int    // of the next instruction or argument
	op    int    // of the current instruction
	stack []any
	memo  map[uint64]any
	spent int // work done, in instructions, items copied, and pieces of names
	// persistent finds what a storage's id stands for.
	persistent func(id tuple) (*storage, error)
}

// errorf returns an error at the current instruction.
func (m *machine) errorf(format string, args ...any) error {
	return m.part.Errorf(m.start+int64(m.op), "pickle: "+format, args...)
}

// run executes a pickle and returns its value. pos is then behind it.
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
		step := instructions[code[0]]
		if step == nil {
			return nil, m.errorf("instruction 0x%02x is not one that torch.save writes", code[0])
		}
		if err := step(m); err != nil {
			return nil, err
		}
	}
}

// budget limits the work for one file. A state_dict of BERT-Large, 399 tensors, takes 12,254 instructions.
const budget = 1 << 22

// spend counts work, so that a hostile file can't keep the machine busy or fill the memory.
func (m *machine) spend(n int) error {
	if m.spent += n; m.spent > budget {
		return m.errorf("more than %d instructions and items", budget)
	}
	return nil
}

// take returns the next n bytes of the code.
func (m *machine) take(n int) ([]byte, error) {
	if n > len(m.code)-m.pos {
		return nil, m.part.Errorf(m.start+int64(len(m.code)), "pickle: the file ends inside: the instruction at byte %d "+
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

// twosComplement reads a little-endian number: an int64, or a bigInt if it has more than 8 bytes.
func twosComplement(b []byte) any {
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

// popMark takes the values above the last mark.
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

// top is the last value, which stays.
func (m *machine) top() (any, error) {
	if len(m.stack) == 0 {
		return nil, m.errorf("no value is there")
	}
	return m.stack[len(m.stack)-1], nil
}

package pytorch

import (
	"fmt"

	"harness.invalid/core/checkpoint/weights"
	"harness.invalid/core/tensor"
)

// The values of the machine: nil, bool, int64, float64, string, []byte, and those below.
type (
	// bigInt is a whole number that does not fit in an int64: its little-endian two's complement.
	bigInt string
	// global names a Python object, MODULE.NAME.
	global string
	// tuple is immutable.
	tuple []any
	// list also stands for a set.
	list struct{ items []any }
	// dict keeps its keys in the order of insertion.
	dict struct{ keys, values []any }
	// storage is an array of elements, in a file of its own in the archive or behind the pickles.
	storage struct {
		key    string
		dtype  tensor.DType
		len    int64 // in elements
		offset int64 // in bytes from the start of the file; -1 while unknown
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
	// mark is where a list of arguments starts on the stack.
	mark struct{}
)

// describe formats a value for an error.
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

package pytorch

import (
	"math"

	"harness.invalid/core/checkpoint/weights"
	"harness.invalid/core/tensor"
)

// storages maps PyTorch's storage classes to types of elements (torch/storage.py).
var storages = map[global]tensor.DType{
	"torch.DoubleStorage":   tensor.F64,
	"torch.FloatStorage":    tensor.F32,
	"torch.HalfStorage":     tensor.F16,
	"torch.BFloat16Storage": tensor.BF16,
	"torch.LongStorage":     tensor.I64,
	"torch.IntStorage":      tensor.I32,
	"torch.ShortStorage":    "I16",
	"torch.CharStorage":     "I8",
	"torch.ByteStorage":     tensor.U8,
	"torch.BoolStorage":     tensor.Bool,
}

// calls are the functions that REDUCE can call.
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

// name puts a name on the stack if the machine knows what it means.
func (m *machine) name(module, name string) error {
	g := global(module + "." + name)
	if storages[g] == "" && calls[g] == nil {
		return m.errorf("the file wants Python's %s, but only plain data and tensors are read: code in it is never run", weights.Quote(string(g)))
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

// first stands in for constructors of which only the first argument matters: the tensor of a parameter, the numbers
// of a torch.Size.
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

package pytorch

import (
	"fmt"
	"strconv"

	"harness.invalid/core/checkpoint/weights"
)

// collector names the tensors in a value by keys and indices joined by "/". Other plain values become metadata
// under such names.
type collector struct {
	machine  *machine
	views    []*view
	names    []string
	metadata map[string]string
	within   map[any]bool // containers around the current one
}

// Limits on what shared references can expand to, beside the budget.
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
			return c.machine.errorf("%s contains itself", weights.Quote(name))
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

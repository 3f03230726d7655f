package evaluation

import (
	"bytes"
	"encoding/json"
	"math"
)

// Report is what an official script prints: numbers, and groups of them, by name, in an order.
type Report []Number

// Number is a number with its name, or a group of numbers.
type Number struct {
	Name  string
	Value float64
	Group Report // nil: a number
}

func (r *Report) add(name string, value float64) { *r = append(*r, Number{Name: name, Value: value}) }

// MarshalJSON writes an object in the order of the numbers. A number that is infinite or not a number becomes null.
func (r Report) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, n := range r {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(n.Name)
		if err != nil {
			return nil, err
		}
		value := []byte("null")
		if n.Group != nil {
			if value, err = n.Group.MarshalJSON(); err != nil {
				return nil, err
			}
		} else if !math.IsNaN(n.Value) && !math.IsInf(n.Value, 0) {
			if value, err = json.Marshal(n.Value); err != nil {
				return nil, err
			}
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

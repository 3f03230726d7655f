package tensor

import (
	"strings"
	"testing"
)

func TestLayout(t *testing.T) {
	l, err := NewLayout(
		Tensor{Name: "a", Shape: Shape{3, 5}},
		Tensor{Name: "b", Shape: Shape{16}, Kind: Bias},
		Tensor{Name: "c", Shape: Shape{}, Kind: NormScale},
	)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"a": 0, "b": 16, "c": 32} {
		if got, ok := l.Lookup(name); !ok || got.Offset != want {
			t.Errorf("Lookup(%s) = offset %d, %v, want %d", name, got.Offset, ok, want)
		}
	}
	if _, ok := l.Lookup("d"); ok {
		t.Error("Lookup(d) found a tensor that is not there")
	}
	if l.Len() != 48 || l.Parameters() != 32 {
		t.Errorf("Len, Parameters = %d, %d, want 48, 32", l.Len(), l.Parameters())
	}
	b, _ := l.Lookup("b")
	if got := b.Of(make([]float32, 48)); len(got) != 16 || cap(got) != 16 {
		t.Errorf("Of: length %d, capacity %d, want 16, 16: a tensor must not reach into the next", len(got), cap(got))
	}
	other, _ := NewLayout(Tensor{Name: "a", Shape: Shape{5, 3}}, l.Tensors()[1], l.Tensors()[2])
	if !l.Equal(l) || l.Equal(other) {
		t.Error("Equal: want true for itself, false for another shape")
	}
}

func TestLayoutErrors(t *testing.T) {
	for _, test := range []struct {
		tensors []Tensor
		want    string
	}{
		{[]Tensor{{Shape: Shape{1}}}, "no name"},
		{[]Tensor{{Name: "a", Shape: Shape{1}}, {Name: "a", Shape: Shape{2}}}, "two tensors are named a"},
		{[]Tensor{{Name: "a", Shape: Shape{2, 0}}}, "[2 0]"},
		{[]Tensor{{Name: "a", Shape: Shape{-1}}}, "[-1]"},
		{[]Tensor{{Name: "a", Shape: Shape{1 << 30, 1 << 30, 1 << 30}}}, "at most"},
		{[]Tensor{{Name: "a", Shape: Shape{MaxLen}}}, "exceeds"},
		{[]Tensor{{Name: "a", Shape: Shape{1}, Kind: 200}}, "unknown kind 200"},
	} {
		if _, err := NewLayout(test.tensors...); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("NewLayout(%v) = %v, want an error with %q", test.tensors, err, test.want)
		}
	}
}

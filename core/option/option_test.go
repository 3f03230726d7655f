package option

import (
	"strings"
	"testing"
)

var known = []Option{{Name: "beta1", Default: "0.9"}, {Name: "bias_correction", Default: "true"},
	{Name: "mode", Default: "a"}, {Name: "chunk", Default: "16"}}

func TestRead(t *testing.T) {
	v, err := Read(known, map[string]string{"beta1": "0.5", "mode": "b"})
	if err != nil {
		t.Fatal(err)
	}
	if b := v.Float("beta1", 0, 1); b != 0.5 {
		t.Errorf("beta1 = %g, want 0.5", b)
	}
	if !v.Bool("bias_correction") || v.OneOf("mode", "a", "b") != "b" || v.Int("chunk", 1, 64) != 16 || v.Err() != nil {
		t.Errorf("defaults were not kept: %v", v.Err())
	}
}

func TestErrors(t *testing.T) {
	if _, err := Read(known, map[string]string{"beta": "1"}); err == nil || !strings.Contains(err.Error(), "did you mean beta1?") {
		t.Errorf("Read(beta) = %v, want a hint", err)
	}
	for name, read := range map[string]func(*Values){
		"beta1":           func(v *Values) { v.Float("beta1", 0, 1) },
		"bias_correction": func(v *Values) { v.Bool("bias_correction") },
		"mode":            func(v *Values) { v.OneOf("mode", "a", "b") },
		"chunk":           func(v *Values) { v.Int("chunk", 1, 64) },
	} {
		for _, value := range []string{"", "nan", "x", "-1", "2e9"} {
			v, err := Read(known, map[string]string{name: value})
			if err != nil {
				t.Fatal(err)
			}
			if read(v); v.Err() == nil || !strings.Contains(v.Err().Error(), name) {
				t.Errorf("%s=%q: error %v, want one that names it", name, value, v.Err())
			}
		}
	}
}

package recipe

import (
	"strings"
	"testing"
)

// FuzzSet: no override makes a recipe that is not written and read again as it is.
func FuzzSet(f *testing.F) {
	for _, o := range []string{
		"phases.0.steps=3", "phases.*.steps=3", "name=x", "phases.a.optimizer.options={lr: 1}", "model.size=mini", "a.b.c=", "=1", "phases=",
		"defaults.steps=1", "extends=quick", "data.files.text=[a, b]", "phases.0=null", "verdict.margins.f1=1e400",
	} {
		f.Add(o)
	}
	f.Fuzz(func(t *testing.T, override string) {
		r, err := Parse("small.yaml", []byte(small), override)
		if err != nil {
			if n := len(err.Error()); n > 64<<10+4*len(override) {
				t.Errorf("an error of %d bytes for an override of %d", n, len(override))
			}
			return
		}
		var out strings.Builder
		if err := r.Write(&out); err != nil {
			t.Fatal(err)
		}
		again, err := ParseResolved("small.yaml", []byte(out.String()))
		if err != nil || again.Fingerprint() != r.Fingerprint() {
			t.Errorf("%s: %v\n%s", override, err, out.String())
		}
	})
}

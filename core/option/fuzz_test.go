package option_test

import (
	"testing"

	"harness.invalid/core/option"
)

// FuzzRead: what passes lies within its bounds.
func FuzzRead(f *testing.F) {
	f.Add("rate", "0.5")
	f.Add("steps", "-3")
	f.Add("rate", "nan")
	f.Add("kind", "b")
	f.Add("no", "x")
	known := []option.Option{
		{Name: "rate", Default: "1"}, {Name: "steps", Default: "1"}, {Name: "kind", Default: "a"}, {Name: "on", Default: "true"},
	}
	f.Fuzz(func(t *testing.T, name, value string) {
		v, err := option.Read(known, map[string]string{name: value})
		if err != nil {
			return
		}
		rate, steps, kind := v.Float("rate", 0, 1), v.Int("steps", 1, 10), v.OneOf("kind", "a", "b")
		v.Bool("on")
		if v.Err() == nil && (!(rate >= 0 && rate <= 1) || steps < 1 || steps > 10 || kind != "a" && kind != "b") {
			t.Errorf("%s=%q: %g, %d, %s", name, value, rate, steps, kind)
		}
	})
}

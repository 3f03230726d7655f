// Package option reads the settings of plugins: known options with defaults and the texts that were given go in,
// typed values or an error come out.
package option

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"harness.invalid/core/spelling"
)

// Option is a setting of a backend or an optimizer, given as text.
type Option struct {
	Name    string
	Default string
	Doc     string
}

// Values are the settings of one plugin with all defaults filled in. Read all settings first, then check Err, which
// has the first bad value.
type Values struct {
	values map[string]string
	err    error
}

// Read fills in defaults. For an unknown name it returns an error with the nearest known one.
func Read(known []Option, given map[string]string) (*Values, error) {
	v := &Values{values: make(map[string]string, len(known))}
	names := make([]string, len(known))
	for i, o := range known {
		names[i] = o.Name
		v.values[o.Name] = o.Default
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if _, ok := v.values[name]; !ok {
			return nil, fmt.Errorf("no option is named %q%s (known: %s)", name, spelling.Hint(name, names), strings.Join(names, ", "))
		}
		v.values[name] = given[name]
	}
	return v, nil
}

// Err reports the first bad value, in the order of reading.
func (v *Values) Err() error { return v.err }

func (v *Values) bad(name, want string) {
	if v.err == nil {
		v.err = fmt.Errorf("option %s is %q, want %s", name, v.values[name], want)
	}
}

// Text returns the value as it is.
func (v *Values) Text(name string) string { return v.values[name] }

// OneOf returns the value if it is one of the choices.
func (v *Values) OneOf(name string, choices ...string) string {
	if !slices.Contains(choices, v.values[name]) {
		v.bad(name, "one of "+strings.Join(choices, ", ")+spelling.Hint(v.values[name], choices))
	}
	return v.values[name]
}

// Bool reads true or false.
func (v *Values) Bool(name string) bool {
	b, err := strconv.ParseBool(v.values[name])
	if err != nil {
		v.bad(name, "true or false")
	}
	return b
}

// Float reads a number from lo to hi.
func (v *Values) Float(name string, lo, hi float64) float64 {
	f, err := strconv.ParseFloat(v.values[name], 64)
	if err != nil || !(f >= lo && f <= hi) {
		v.bad(name, fmt.Sprintf("a number from %g to %g", lo, hi))
	}
	return f
}

// Int reads a whole number from lo to hi.
func (v *Values) Int(name string, lo, hi int) int {
	i, err := strconv.Atoi(v.values[name])
	if err != nil || i < lo || i > hi {
		v.bad(name, fmt.Sprintf("a whole number from %d to %d", lo, hi))
	}
	return i
}

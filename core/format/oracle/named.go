package oracle

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"harness.invalid/core/format"
)

// variant changes a built-in format.
type variant struct {
	rounding format.Rounding
	overflow format.Overflow
	rule     format.Rule
}

// variants by the end of a tensor's name.
var variants = map[string]variant{
	"nearest":             {},
	"nearest.saturate":    {overflow: format.Saturate},
	"stochastic.saturate": {rounding: format.Stochastic, overflow: format.Saturate},
	"floor":               {rule: format.Floor},
	"ceil":                {rule: format.Ceil},
}

// formats by the name of a tensor, where the one is not the other's.
var formats = map[string]string{
	"mxfp4_e2m1":        "mxfp4",
	"mxint8.floor":      "mxint8",
	"e4m3.tensor":       "e4m3-tensor",
	"e5m2.tensor":       "e5m2-tensor",
	"e4m3.block1x128":   "fp8-1x128",
	"e4m3.block128x128": "fp8-128x128",
	"nvfp4.1x16":        "nvfp4",
	"nvfp4.16x16":       "nvfp4-16x16",
}

// named finds the format for the name of a tensor, and what to call it.
func named(name string) (*format.Format, string, error) {
	if known, ok := formats[name]; ok {
		f, err := format.Load(known)
		return f, known, err
	}
	first, rest, _ := strings.Cut(name, ".")
	change, ok := variants[rest]
	if !ok {
		return nil, "", fmt.Errorf("%q is no variant of a format (known: %s, and as a whole %s)", rest,
			strings.Join(slices.Sorted(maps.Keys(variants)), ", "), strings.Join(slices.Sorted(maps.Keys(formats)), ", "))
	}
	known, ok := formats[first]
	if !ok {
		known = strings.ReplaceAll(first, "_", "-")
	}
	f, err := format.Load(known)
	if err != nil {
		return nil, "", err
	}
	g, err := f.With(change.rounding, change.overflow, change.rule)
	if err != nil {
		return nil, "", err
	}
	title := known
	if change != (variant{}) && !reflect.DeepEqual(f, g) {
		title += " (" + strings.ReplaceAll(rest, ".", ", ") + ")"
	}
	return g, title, nil
}

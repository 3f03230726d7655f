// Package tuning searches settings of a recipe: it draws trials from a declared space, trains each as an experiment,
// and ranks them.
package tuning

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distmv"
	"gonum.org/v1/gonum/stat/samplemv"
	"harness.invalid/core/bounded"
	"harness.invalid/core/jsonerror"
)

// Field is what a search does with a field of the recipe: it takes values from a range, or from a list.
type Field struct {
	Min     float64 `json:"min"`
	Max     float64 `json:"max"`
	Scaling string  `json:"scaling"` // linear or log
	Values  []any   `json:"feasible_points"`
}

// Space is the fields to search, by their paths in the recipe.
type Space map[string]Field

// ReadSpace reads a search space in AlgoPerf's format: an object of {"min", "max", "scaling"} or {"feasible_points"}
// by the path of the field.
func ReadSpace(path string) (Space, error) {
	text, err := bounded.ReadFile(path, 16*bounded.MiB)
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	var s Space
	if err := dec.Decode(&s); err != nil {
		return nil, fmt.Errorf("search space %s: %w", path, jsonerror.Explain(text, err))
	}
	if len(s) == 0 {
		return nil, fmt.Errorf("search space %s has no field", path)
	}
	for name, f := range s {
		if err := f.check(); err != nil {
			return nil, fmt.Errorf("search space %s: %s: %w", path, name, err)
		}
	}
	return s, nil
}

func (f Field) check() error {
	switch {
	case len(f.Values) > 0 && f.Scaling == "" && f.Min == 0 && f.Max == 0:
	case len(f.Values) > 0:
		return errors.New("it has feasible_points and a range as well")
	case f.Scaling != "linear" && f.Scaling != "log":
		return fmt.Errorf("scaling is %q, want linear or log", f.Scaling)
	case !(f.Min < f.Max) || math.IsInf(f.Max-f.Min, 0):
		return fmt.Errorf("min %g is not below max %g", f.Min, f.Max)
	case f.Scaling == "log" && f.Min <= 0:
		return fmt.Errorf("min is %g, want more than 0 on a log scale", f.Min)
	}
	return nil
}

// Points returns n points of the space as overrides of the recipe, PATH=VALUE. They are Halton's sequence, scrambled
// by a seed, so that any number of points is spread evenly. Source: Owen 2017, A randomized Halton algorithm in R
// (arXiv:1706.02808); AlgoPerf's external tuning draws quasi-random trials as well.
func (s Space) Points(n int, seed uint64) [][]string {
	names := slices.Sorted(maps.Keys(s))
	points := mat.NewDense(n, len(names), nil)
	samplemv.Halton{Kind: samplemv.Owen, Q: distmv.NewUnitUniform(len(names), nil), Src: rand.NewPCG(seed, 0)}.Sample(points)
	all := make([][]string, n)
	for i := range all {
		for j, name := range names {
			all[i] = append(all[i], name+"="+s[name].at(points.At(i, j)))
		}
	}
	return all
}

// at is the value at a place between 0 and 1.
func (f Field) at(u float64) string {
	if len(f.Values) > 0 {
		v := f.Values[min(int(u*float64(len(f.Values))), len(f.Values)-1)]
		if text, ok := v.(string); ok {
			return text
		}
		text, _ := json.Marshal(v) // it came out of JSON
		return string(text)
	}
	v := f.Min + u*(f.Max-f.Min)
	if f.Scaling == "log" {
		v = f.Min * math.Pow(f.Max/f.Min, u)
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}

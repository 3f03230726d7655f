package shrink

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"harness.invalid/core/recipe"
)

// model scales width and layers. Heads keep their width and the feed-forward layers their share. Initial weights keep
// the spread of what they add up to: their standard deviation grows by the root of what the width shrinks by.
func (w *shrinker) model() error {
	c := &w.Model.Config
	if slices.ContainsFunc(w.pipelines(), func(o recipe.Options) bool { return o["pipeline"] == "published" }) {
		return errors.New("option pipeline is published, which is for one size of the model: want the layers of each IPU, such as 3,7,7,7")
	}
	layers := min(c.NumHiddenLayers, fewLayers)
	for _, o := range w.pipelines() {
		if list, ok := readLayers(o["pipeline"]); ok {
			layers = max(layers, int(sum(least(list))))
		}
	}
	for _, o := range w.pipelines() {
		if list, ok := readLayers(o["pipeline"]); ok {
			to := writeLayers(spread(list, float64(layers)))
			if to != o["pipeline"] {
				w.scaled = append(w.scaled, fmt.Sprintf("pipeline %s to %s", o["pipeline"], to))
			}
			o["pipeline"] = to
		}
	}
	w.change("layers", &c.NumHiddenLayers, layers)
	if was := c.HiddenSize; was > hidden {
		head := c.HeadSize()
		if hidden%head != 0 {
			head = hidden / 2
		}
		w.change("hidden size", &c.HiddenSize, hidden)
		w.change("heads", &c.NumAttentionHeads, hidden/head)
		w.change("feed-forward size", &c.IntermediateSize, max(1, c.IntermediateSize*hidden/was))
		spread := math.Round(1e4*c.InitializerRange*math.Sqrt(float64(was)/hidden)) / 1e4
		w.scaled = append(w.scaled, fmt.Sprintf("initial weights' standard deviation %g to %g", c.InitializerRange, spread))
		c.InitializerRange = spread
	}
	w.Model.Size = ""
	return nil
}

// pipelines are the options of all backends and phases that place a pipeline.
func (w *shrinker) pipelines() []recipe.Options {
	var list []recipe.Options
	for _, name := range w.backends() {
		b := w.Backends[name]
		all := []recipe.Options{b.Options}
		for i := range w.Phases {
			all = append(all, b.Phases[w.Phases[i].Name].Options)
		}
		for _, o := range all {
			if o["pipeline"] != "" {
				list = append(list, o)
			}
		}
	}
	return list
}

// readLayers reads the layers on each IPU of a pipeline, such as 3,7,7,7; false if the text is no such list.
func readLayers(text string) ([]float64, bool) {
	var list []float64
	for field := range strings.SplitSeq(text, ",") {
		n, err := strconv.ParseFloat(strings.TrimSpace(field), 64)
		if err != nil || !(n >= 0 && n < 1<<10) {
			return nil, false
		}
		list = append(list, n)
	}
	return list, true
}

func writeLayers(layers []float64) string {
	text := make([]string, len(layers))
	for i, n := range layers {
		text[i] = fmt.Sprint(n)
	}
	return strings.Join(text, ",")
}

// least is a pipeline on the same IPUs with the fewest layers: one on each IPU that has some, a half where there is a
// half, and none on one that the embeddings have to themselves.
func least(layers []float64) []float64 {
	list := make([]float64, len(layers))
	for i, n := range layers {
		switch {
		case n != math.Trunc(n):
			list[i] = 0.5
		case n > 0:
			list[i] = 1
		}
	}
	return list
}

// spread lays layers over the same IPUs, in proportion as well as whole layers can be.
func spread(layers []float64, total float64) []float64 {
	list := least(layers)
	for sum(list) < total {
		next := 0
		for i := range list {
			if layers[i]/(list[i]+1) > layers[next]/(list[next]+1) {
				next = i
			}
		}
		list[next]++
	}
	return list
}

func sum(list []float64) (s float64) {
	for _, x := range list {
		s += x
	}
	return s
}

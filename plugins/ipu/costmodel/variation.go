package costmodel

import (
	"slices"

	"harness.invalid/core/backend"
)

// Variations of a program are pipelines of 1 to 16 IPUs, and its own. Execution in phases has no pipeline.
func Variations(p *backend.Program) []backend.Variation {
	if p.Options["execution"] == "phased" {
		return nil
	}
	var layers []string
	if own := p.Options["pipeline"]; own != "" && own != "all" {
		layers = append(layers, own)
	}
	for n := 1; n <= min(mostIPUs, p.Model.NumHiddenLayers); n *= 2 {
		if l := Joined(spread(p.Model.NumHiddenLayers, n)); !slices.Contains(layers, l) {
			layers = append(layers, l)
		}
	}
	var list []backend.Variation
	for _, l := range layers {
		v := backend.Variation{Varied: "layers per IPU", Value: l, Options: map[string]string{"pipeline": l}}
		// Memory that was shared out over the IPUs of one pipeline says nothing about another one.
		if p.Options["pipeline"] != l && p.Options["available_memory_proportion"] != "" {
			v.Options["available_memory_proportion"] = "auto"
		}
		list = append(list, v)
	}
	return list
}

package costmodel

import (
	"harness.invalid/core/backend"
	"harness.invalid/plugins/ipu/execution"
)

// Variations of a program are pipelines of 1 to 16 IPUs, and its own. Execution in phases has no pipeline.
func Variations(p *backend.Program, plan *execution.Plan) []backend.Variation {
	if plan.LayersPerPhase > 0 {
		return nil
	}
	own := plan.Layers.String()
	layers := []string{}
	if len(plan.Layers) > 1 {
		layers = append(layers, own)
	}
	for n := 1; n <= min(mostIPUs, p.Model.NumHiddenLayers); n *= 2 {
		if l := execution.Spread(p.Model.NumHiddenLayers, n).String(); len(plan.Layers) == 1 || l != own {
			layers = append(layers, l)
		}
	}
	var list []backend.Variation
	for _, l := range layers {
		v := backend.Variation{Varied: "layers per IPU", Value: l, Options: map[string]string{"pipeline": l}}
		// Memory that was shared out over the IPUs of one pipeline says nothing about another one.
		if l != own && plan.Proportions != nil {
			v.Options["available_memory_proportion"] = "auto"
		}
		list = append(list, v)
	}
	return list
}

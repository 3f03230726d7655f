// Package optimizertest checks implementations of optimizer.Optimizer against the contract, and against trajectories computed
// by an independent program. It returns its findings, so that tests and commands can use it alike.
package optimizertest

import (
	"context"

	"harness.invalid/core/optimizer"
)

// Result is the outcome of one rule of the contract.
type Result struct {
	Name string
	Err  error // nil: the implementation follows the rule
}

// Conformance checks o against the contract with its default options. The results come in a fixed order, one for each rule of
// the contract. An optimizer that probes or averages is checked against more rules.
func Conformance(ctx context.Context, o optimizer.Optimizer) []Result {
	s := &suite{ctx: ctx, o: o}
	s.info, _ = o.Describe(ctx) // its error is that of the first rule
	type rule struct {
		name  string
		check func() error
	}
	rules := []rule{
		{"describes itself", s.describes},
		{"names its slots", s.namesSlots},
		{"takes its own defaults", s.takesDefaults},
		{"refuses an unknown option", s.refusesUnknownOption},
		{"refuses memory of the wrong length", s.refusesWrongMemory},
		{"refuses an impossible step", s.refusesWrongStep},
		{"moves every parameter that has a gradient", s.moves},
		{"leaves padding alone", s.leavesPadding},
		{"keeps parameters at learning rate 0", s.standsStill},
		{"stays finite without a gradient", s.staysFinite},
		{"reports the norm of the gradients", s.reportsNorm},
		{"repeats itself bit for bit", s.repeats},
		{"keeps no state outside of its slots", s.keepsNoState},
		{"serves two sessions at once", s.servesTwo},
		{"keeps the state that its cost states", s.statesCost},
	}
	if s.info.Probes {
		rules = append(rules, []rule{
			{"probes other parameters", s.probes},
			{"refuses an impossible probe", s.refusesWrongProbe},
			{"probes again after a step that was skipped", s.probesAgain},
			{"keeps no state between a probe and its step", s.restartsAfterProbe},
		}...)
	}
	if s.info.Averages {
		rules = append(rules, []rule{
			{"averages other parameters", s.averages},
			{"refuses an average before the first step", s.refusesWrongAverage},
			{"trains as if nobody had asked for an average", s.averagesAside},
		}...)
	}
	results := make([]Result, len(rules))
	for i, r := range rules {
		err := ctx.Err()
		if err == nil {
			err = r.check()
		}
		results[i] = Result{r.name, err}
	}
	return results
}

// suite is one run of the conformance suite.
type suite struct {
	ctx  context.Context
	o    optimizer.Optimizer
	info optimizer.Info
}

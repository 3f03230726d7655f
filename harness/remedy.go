package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"harness.invalid/core/backend"
	"harness.invalid/core/recipe"
)

// remedy says what makes a program fit, and the flags that do it.
func remedy(advice, flags string) string {
	if flags == "" {
		return "it fits with " + advice
	}
	return fmt.Sprintf("it fits with %s: add %s", advice, flags)
}

// settingsOf are the flags that bring a remedy into a recipe. spec is the backend, NAME or NAME:PRECISION. They set what is strongest: the backend in the
// phase, where the recipe has several phases or settings of single ones.
func settingsOf(r *recipe.Recipe, spec, phase string, p *backend.Program, m *backend.Remedy) []string {
	name, _, _ := strings.Cut(spec, ":")
	at := "backends." + spec
	if len(r.Phases) > 1 || len(r.Backends[name].Phases) > 0 || len(r.Backends[spec].Phases) > 0 {
		at += ".phases." + phase
	}
	var flags []string
	set := func(field, value string) {
		flags = append(flags, "--set "+shellString(at+"."+field+"="+value))
	}
	if m.MicroBatch != p.MicroBatch || m.Accumulation != p.Accumulation || m.Replicas != p.Replicas {
		set("micro_batch", fmt.Sprint(m.MicroBatch))
		set("accumulation", fmt.Sprint(m.Accumulation))
		set("replicas", fmt.Sprint(m.Replicas))
	}
	for _, o := range slices.Sorted(maps.Keys(m.Options)) {
		set("options."+o, m.Options[o])
	}
	return flags
}

// flagsOf are the flags of estimate that apply a remedy to a job: settings of the recipe, and flags of its own where there is no recipe
// or where they were given and go before it.
func (e *estimation) flagsOf(j *job, m *backend.Remedy) string {
	if m == nil {
		return ""
	}
	rest := *m
	rest.Options = maps.Clone(m.Options)
	var flags []string
	own := func(flag, value string) { flags = append(flags, "--"+flag+" "+shellString(value)) }
	p, alone := &j.program, e.recipeRef == ""
	if alone || e.flags.Changed("micro-batch") || e.flags.Changed("accumulation") || e.flags.Changed("replicas") {
		for _, f := range []struct {
			flag     string
			old, new int
		}{{"micro-batch", p.MicroBatch, m.MicroBatch}, {"accumulation", p.Accumulation, m.Accumulation}, {"replicas", p.Replicas, m.Replicas}} {
			if f.old != f.new {
				own(f.flag, fmt.Sprint(f.new))
			}
		}
		rest.MicroBatch, rest.Accumulation, rest.Replicas = p.MicroBatch, p.Accumulation, p.Replicas
	}
	if layers, ok := rest.Options["pipeline"]; ok && (alone || e.flags.Changed("layers-per-ipu")) {
		own("layers-per-ipu", layers)
		delete(rest.Options, "pipeline")
	}
	if system, ok := rest.Options["system"]; ok {
		own("system", system)
		delete(rest.Options, "system")
	}
	return strings.Join(append(flags, settingsOf(e.recipe, e.backend, j.phase, p, &rest)...), " ")
}

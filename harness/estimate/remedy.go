package estimate

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"harness.invalid/core/backend"
	"harness.invalid/core/recipe"
	"harness.invalid/harness/hint"
)

// FitHint says what makes a program fit, and which flags do it; without flags, the advice alone.
func FitHint(advice, flags string) string {
	if flags == "" {
		return "it fits with " + advice
	}
	return fmt.Sprintf("it fits with %s: add %s", advice, flags)
}

// Settings returns the flags that put a remedy for program p into a phase of a recipe. spec is the backend, NAME or
// NAME:PRECISION. Where the recipe has several phases, or settings for single ones, the flags set the phase's own
// settings, which override all others.
func Settings(r *recipe.Recipe, spec, phase string, p *backend.Program, m *backend.Remedy) []string {
	name, _, _ := strings.Cut(spec, ":")
	at := []string{spec}
	if len(r.Phases) > 1 || len(r.Backends[name].Phases) > 0 || len(r.Backends[spec].Phases) > 0 {
		at = append(at, "phases", phase)
	}
	var flags []string
	set := func(value string, field ...string) {
		flags = append(flags, "--set "+hint.Quote(Setting(value, append(slices.Clone(at), field...)...)))
	}
	if m.MicroBatch != p.MicroBatch || m.Accumulation != p.Accumulation || m.Replicas != p.Replicas {
		set(strconv.Itoa(m.MicroBatch), "micro_batch")
		set(strconv.Itoa(m.Accumulation), "accumulation")
		set(strconv.Itoa(m.Replicas), "replicas")
	}
	for _, o := range slices.Sorted(maps.Keys(m.Options)) {
		set(m.Options[o], "options", o)
	}
	return flags
}

// Setting returns the override that gives a field of the recipe's backends a value. A path can't name keys that have
// a dot, such as ipu:fp16.16: they take objects.
func Setting(value string, path ...string) string {
	if !strings.Contains(strings.Join(path, ""), ".") {
		return "backends." + strings.Join(path, ".") + "=" + value
	}
	if _, err := strconv.Atoi(value); err != nil {
		value = strconv.Quote(value)
	}
	for _, key := range slices.Backward(path) {
		value = fmt.Sprintf("{%q: %s}", key, value)
	}
	return "backends=" + value
}

// flags are those of harness estimate that apply a remedy to a job: fields of the request where there is no recipe or
// where they override it, and settings of the recipe otherwise.
func (e *Estimation) flags(j *Job, m *backend.Remedy) string {
	if m == nil {
		return ""
	}
	rest := *m
	rest.Options = maps.Clone(m.Options)
	var flags []string
	own := func(flag, value string) { flags = append(flags, "--"+flag+" "+hint.Quote(value)) }
	p, alone := &j.Program, e.Recipe == ""
	if alone || e.MicroBatch > 0 || e.Accumulation > 0 || e.Replicas > 0 {
		for _, f := range []struct {
			flag     string
			old, new int
		}{
			{"micro-batch", p.MicroBatch, m.MicroBatch}, {"accumulation", p.Accumulation, m.Accumulation}, {"replicas", p.Replicas, m.Replicas},
		} {
			if f.old != f.new {
				own(f.flag, fmt.Sprint(f.new))
			}
		}
		rest.MicroBatch, rest.Accumulation, rest.Replicas = p.MicroBatch, p.Accumulation, p.Replicas
	}
	for _, name := range slices.Sorted(maps.Keys(e.Options)) {
		if value, ok := rest.Options[name]; ok {
			own("option", name+"="+value)
			delete(rest.Options, name)
		}
	}
	if system, ok := rest.Options["system"]; ok {
		own("system", system)
		delete(rest.Options, "system")
	}
	return strings.Join(append(flags, Settings(e.recipe, e.Backend, j.Phase, p, &rest)...), " ")
}

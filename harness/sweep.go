package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"harness.invalid/core/backend"
	"harness.invalid/plugins/ipu/costmodel"
)

// point is one setting of a sweep.
type point struct {
	Phase              string  `json:"phase"`
	Varied             string  `json:"varied"`
	Value              string  `json:"value"`
	MicroBatch         int     `json:"micro_batch"`
	Accumulation       int     `json:"accumulation"`
	Replicas           int     `json:"replicas"`
	LayersPerIPU       string  `json:"layers_per_ipu,omitempty"`
	System             string  `json:"system,omitempty"` // that was modelled: a larger one of the family where the named one has too few devices
	SequencesPerSecond float64 `json:"sequences_per_second,omitempty"`
	StepSeconds        float64 `json:"step_seconds,omitempty"`
	GlobalBatch        int     `json:"global_batch,omitempty"`
	PeakShare          float64 `json:"peak_share,omitempty"`
	Fits               bool    `json:"fits"`
	Error              string  `json:"error,omitempty"`
	Fastest            bool    `json:"fastest,omitempty"` // of those that vary the same thing and fit
	Best               bool    `json:"best,omitempty"`    // of all cuts of the phase's global batch on the named system
}

// variation changes one thing of a program.
type variation struct {
	varied, value string
	change        func(p *backend.Program)
}

// The things that a sweep varies. The last one is the whole cut.
const (
	variedReplicas     = "replicas"
	variedMicroBatch   = "micro-batch"
	variedAccumulation = "accumulation"
	variedLayers       = "layers per IPU"
	variedCut          = "cut"
)

const (
	mostReplicas = 64
	mostIPUs     = 16 // of a replica
	cutsShown    = 5
)

// variations are the points of a sweep around a program, one thing changed at a time.
func variations(p *backend.Program, pipeline bool) []variation {
	var list []variation
	for n := 1; n <= mostReplicas; n *= 2 {
		list = append(list, variation{variedReplicas, strconv.Itoa(n), func(p *backend.Program) { p.Replicas = n }})
	}
	for n := 1; n <= max(64, 2*p.MicroBatch); n *= 2 {
		list = append(list, variation{variedMicroBatch, strconv.Itoa(n), func(p *backend.Program) { p.MicroBatch = n }})
	}
	for n := max(1, p.Accumulation/16); n <= p.Accumulation*4; n *= 2 {
		list = append(list, variation{variedAccumulation, strconv.Itoa(n), func(p *backend.Program) { p.Accumulation = n }})
	}
	if !pipeline {
		return list
	}
	for _, layers := range pipelines(p) {
		list = append(list, variation{variedLayers, layers, func(p *backend.Program) { lay(p, layers) }})
	}
	return list
}

// lay puts so many layers on each IPU. Memory that was shared out over the IPUs of one pipeline says nothing about another one.
func lay(p *backend.Program, layers string) {
	if p.Options["pipeline"] == layers {
		return
	}
	p.Options["pipeline"] = layers
	delete(p.Options, "available_memory_proportion")
}

// pipelines of 1 to 16 IPUs, and that of the program.
func pipelines(p *backend.Program) []string {
	var list []string
	if own := p.Options["pipeline"]; own != "" && own != "all" {
		list = append(list, own)
	}
	for n := 1; n <= min(mostIPUs, p.Model.NumHiddenLayers); n *= 2 {
		if layers := costmodel.Joined(costmodel.Spread(p.Model.NumHiddenLayers, n)); !slices.Contains(list, layers) {
			list = append(list, layers)
		}
	}
	return list
}

// sweep models what becomes of each phase when one thing at a time is another, and looks for the fastest cut of its global batch.
func (e *estimation) sweep(cmd *cobra.Command, estimator backend.Estimator, jobs []job, format string) error {
	var points []point
	name, _, _ := strings.Cut(e.backend, ":")
	for _, j := range jobs {
		pipeline := name == "ipu" && j.program.Options["execution"] != "phased"
		var tables [][]point
		for _, v := range variations(&j.program, pipeline) {
			p, err := e.point(cmd, estimator, j, v, true)
			if err != nil {
				return err
			}
			if n := len(tables); n == 0 || tables[n-1][0].Varied != p.Varied {
				tables = append(tables, nil)
			}
			at := &tables[len(tables)-1]
			*at = append(*at, p)
		}
		for _, table := range tables {
			if i := fastest(table); i >= 0 {
				table[i].Fastest = true
			}
			points = append(points, table...)
		}
		cuts, err := e.cuts(cmd, estimator, j, pipeline)
		if err != nil {
			return err
		}
		points = append(points, cuts...)
	}
	if !slices.ContainsFunc(points, func(p point) bool { return p.SequencesPerSecond > 0 }) {
		return fmt.Errorf("no setting of the sweep runs; the last: %s", points[len(points)-1].Error)
	}
	if format == "json" {
		enc := json.NewEncoder(cmd.OutOrStdout())
		enc.SetIndent("", "  ")
		return enc.Encode(struct {
			Backend string  `json:"backend"`
			Points  []point `json:"points"`
		}{e.backend, points})
	}
	return writeSweep(cmd.OutOrStdout(), points)
}

// cuts models the ways to cut the global batch of a phase over the most replicas with which some micro-batch fits, and returns the fastest that fit.
func (e *estimation) cuts(cmd *cobra.Command, estimator backend.Estimator, j job, pipeline bool) ([]point, error) {
	global, places := j.program.GlobalBatch(), []string{""}
	if pipeline {
		places = pipelines(&j.program)
	}
	var list []point
	for _, layers := range places {
		found := len(list)
		for replicas := mostReplicas; replicas >= 1 && len(list) == found; replicas /= 2 {
			for micro := 1; micro <= max(64, 2*j.program.MicroBatch); micro *= 2 {
				accumulation := global / (micro * replicas)
				if accumulation*micro*replicas != global {
					continue
				}
				v := variation{variedCut, fmt.Sprintf("%d x %d x %d", micro, accumulation, replicas), func(p *backend.Program) {
					if p.MicroBatch, p.Accumulation, p.Replicas = micro, accumulation, replicas; layers != "" {
						lay(p, layers)
					}
				}}
				if layers != "" {
					v.value += ", layers " + layers
				}
				p, err := e.point(cmd, estimator, j, v, false)
				if err != nil {
					return nil, err
				}
				if p.Fits {
					list = append(list, p)
				}
			}
		}
	}
	slices.SortStableFunc(list, func(a, b point) int { return cmp.Compare(b.SequencesPerSecond, a.SequencesPerSecond) })
	if len(list) > 0 {
		list[0].Best = true
	}
	return list[:min(cutsShown, len(list))], nil
}

// fastest is the point with most sequences a second that fits; -1: none does.
func fastest(points []point) int {
	best := -1
	for i, p := range points {
		if p.Fits && (best < 0 || p.SequencesPerSecond > points[best].SequencesPerSecond) {
			best = i
		}
	}
	return best
}

// point models a variation of a phase. What the system has too few devices for may grow onto a larger system of its family: bow-pod64 onto what bow-pod
// stands for.
func (e *estimation) point(cmd *cobra.Command, estimator backend.Estimator, j job, v variation, grow bool) (point, error) {
	q := j.program
	if q.Options = maps.Clone(q.Options); q.Options == nil {
		q.Options = map[string]string{}
	}
	v.change(&q)
	p := point{Phase: j.phase, Varied: v.varied, Value: v.value, MicroBatch: q.MicroBatch, Accumulation: q.Accumulation, Replicas: q.Replicas, LayersPerIPU: q.Options["pipeline"]}
	m, err := estimator.Estimate(cmd.Context(), q, j.on)
	name := cmp.Or(j.on.System, q.Options["system"], e.defaultSystem)
	if family := strings.TrimRight(name, "0123456789"); err != nil && grow && family != name && j.on.Description == "" {
		larger := j.on
		larger.System = family
		if other, failed := estimator.Estimate(cmd.Context(), q, larger); failed == nil {
			m, err = other, nil
		}
	}
	if err == nil {
		p.System, p.SequencesPerSecond, p.StepSeconds, p.GlobalBatch, p.PeakShare, p.Fits = m.System, m.SequencesPerSecond, m.StepSeconds, m.GlobalBatch, m.PeakShare, m.Fits()
		err = m.Err()
	} else if cmd.Context().Err() != nil {
		return p, err
	}
	if err != nil {
		plugin, _, _ := strings.Cut(e.backend, ":")
		p.Error = strings.TrimPrefix(err.Error(), fmt.Sprintf("backend %s: estimate: %s: ", plugin, plugin))
	}
	return p, nil
}

// writeSweep prints a table for each thing that was varied.
func writeSweep(w io.Writer, points []point) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	table := ""
	for _, p := range points {
		if at := p.Phase + ": " + p.Varied; at != table {
			if table != "" {
				fmt.Fprintln(t)
			}
			table = at
			if p.Varied == variedCut {
				at += fmt.Sprintf(" of %d, micro-batch x accumulation x replicas", p.GlobalBatch)
			}
			fmt.Fprintf(t, "%s\tsystem\tmodelled sequences/s\tmodelled seconds a step\tglobal batch\tof peak\n", at)
		}
		if p.SequencesPerSecond == 0 {
			fmt.Fprintf(t, "%s\t-\t-\t-\t-\t-\t%s\n", p.Value, p.Error)
			continue
		}
		mark := p.Error
		switch {
		case p.Best:
			mark = "best that fits"
		case p.Fastest:
			mark = "fastest that fits"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%.1f%%\t%s\n",
			p.Value, p.System, significant(p.SequencesPerSecond), significant(p.StepSeconds), p.GlobalBatch, 100*p.PeakShare, mark)
	}
	return t.Flush()
}

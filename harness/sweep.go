package main

import (
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
)

// point is one setting of a sweep.
type point struct {
	Phase              string  `json:"phase"`
	Varied             string  `json:"varied"`
	Value              string  `json:"value"`
	SequencesPerSecond float64 `json:"sequences_per_second,omitempty"`
	StepSeconds        float64 `json:"step_seconds,omitempty"`
	GlobalBatch        int     `json:"global_batch,omitempty"`
	PeakShare          float64 `json:"peak_share,omitempty"`
	Fits               bool    `json:"fits"`
	Error              string  `json:"error,omitempty"`
	Best               bool    `json:"best,omitempty"`
}

// variation changes one thing of a program.
type variation struct {
	varied, value string
	change        func(p *backend.Program)
}

// variations are the points of a sweep around a program.
func variations(p *backend.Program, pipeline bool) []variation {
	var list []variation
	for n := 1; n <= 64; n *= 2 {
		list = append(list, variation{"replicas", strconv.Itoa(n), func(p *backend.Program) { p.Replicas = n }})
	}
	for n := 1; n <= max(64, 2*p.MicroBatch); n *= 2 {
		list = append(list, variation{"micro-batch", strconv.Itoa(n), func(p *backend.Program) { p.MicroBatch = n }})
	}
	for n := max(1, p.Accumulation/16); n <= p.Accumulation*4; n *= 2 {
		list = append(list, variation{"accumulation", strconv.Itoa(n), func(p *backend.Program) { p.Accumulation = n }})
	}
	if !pipeline {
		return list
	}
	for n := 1; n <= min(16, p.Model.NumHiddenLayers); n *= 2 {
		text := layersOn(p.Model.NumHiddenLayers, n)
		list = append(list, variation{"layers per IPU", text, func(p *backend.Program) {
			p.Options["pipeline"] = text
			// Memory that was shared out over the IPUs of one pipeline says nothing about another one.
			delete(p.Options, "available_memory_proportion")
		}})
	}
	return list
}

// layersOn spreads layers over n IPUs: fewer on the first, whose embeddings and heads weigh about as much as three layers.
func layersOn(layers, n int) string {
	each := (layers + 3 + n - 1) / n
	left := layers
	list := make([]string, n)
	for i := n - 1; i > 0; i-- {
		k := max(1, min(each, left-(i-1)))
		list[i], left = strconv.Itoa(k), left-k
	}
	list[0] = strconv.Itoa(left)
	return strings.Join(list, ",")
}

// sweep models what becomes of each phase when one thing at a time is another.
func (e *estimation) sweep(cmd *cobra.Command, estimator backend.Estimator, jobs []job, format string) error {
	var points []point
	name, _, _ := strings.Cut(e.backend, ":")
	for _, j := range jobs {
		best := -1
		for _, v := range variations(&j.program, name == "ipu") {
			q := j.program
			if q.Options = maps.Clone(q.Options); q.Options == nil {
				q.Options = map[string]string{}
			}
			v.change(&q)
			p := point{Phase: j.phase, Varied: v.varied, Value: v.value}
			m, err := estimator.Estimate(cmd.Context(), q, j.on)
			if err == nil {
				p.SequencesPerSecond, p.StepSeconds, p.GlobalBatch, p.PeakShare, p.Fits = m.SequencesPerSecond, m.StepSeconds, m.GlobalBatch, m.PeakShare, m.Fits()
				err = m.Err()
			} else if cmd.Context().Err() != nil {
				return err
			}
			if err != nil {
				p.Error = strings.TrimPrefix(err.Error(), fmt.Sprintf("backend %s: estimate: %s: ", name, name))
			}
			points = append(points, p)
			if p.Fits && (best < 0 || p.SequencesPerSecond > points[best].SequencesPerSecond) {
				best = len(points) - 1
			}
		}
		if best >= 0 {
			points[best].Best = true
		}
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
			fmt.Fprintf(t, "%s\tmodelled sequences/s\tmodelled seconds a step\tglobal batch\tof peak\n", at)
		}
		if p.SequencesPerSecond == 0 {
			fmt.Fprintf(t, "%s\t-\t-\t-\t-\t%s\n", p.Value, p.Error)
			continue
		}
		mark := p.Error
		if p.Best {
			mark = "fastest that fits"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%.1f%%\t%s\n", p.Value, significant(p.SequencesPerSecond), significant(p.StepSeconds), p.GlobalBatch, 100*p.PeakShare, mark)
	}
	return t.Flush()
}

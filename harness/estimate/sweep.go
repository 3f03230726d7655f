package estimate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"harness.invalid/core/backend"
	"harness.invalid/plugins/ipu/costmodel"
)

// Point is one setting of a sweep.
type Point struct {
	Phase              string  `json:"phase"`
	Varied             string  `json:"varied"`
	Value              string  `json:"value"`
	MicroBatch         int     `json:"micro_batch"`
	Accumulation       int     `json:"accumulation"`
	Replicas           int     `json:"replicas"`
	LayersPerIPU       string  `json:"layers_per_ipu,omitempty"`
	System             string  `json:"system,omitempty"` // that was modelled; see Session.point
	SequencesPerSecond float64 `json:"sequences_per_second,omitempty"`
	StepSeconds        float64 `json:"step_seconds,omitempty"`
	GlobalBatch        int     `json:"global_batch,omitempty"`
	PeakShare          float64 `json:"peak_share,omitempty"`
	Fits               bool    `json:"fits"`
	Error              string  `json:"error,omitempty"`
	Fastest            bool    `json:"fastest,omitempty"` // of the points that vary the same thing and fit
	Best               bool    `json:"best,omitempty"`    // of all cuts of the phase's global batch on the named system
}

// variation changes one thing of a program.
type variation struct {
	varied, value string
	change        func(p *backend.Program)
}

// What a sweep varies. The last one is the whole cut of the global batch.
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

// Sweep models what becomes of each phase when one thing at a time changes, and looks for the fastest cut of its
// global batch.
func (s *Session) Sweep(ctx context.Context) ([]Point, error) {
	var points []Point
	name, _, _ := strings.Cut(s.Backend, ":")
	for i := range s.Jobs {
		j := &s.Jobs[i]
		pipeline := name == "ipu" && j.Program.Options["execution"] != "phased"
		varied, err := s.vary(ctx, j, pipeline)
		if err != nil {
			return nil, err
		}
		cuts, err := s.cuts(ctx, j, pipeline)
		if err != nil {
			return nil, err
		}
		points = append(append(points, varied...), cuts...)
	}
	if !slices.ContainsFunc(points, func(p Point) bool { return p.SequencesPerSecond > 0 }) {
		return nil, fmt.Errorf("no setting of the sweep runs; the last: %s", points[len(points)-1].Error)
	}
	return points, nil
}

// vary models the variations of a phase and marks the fastest of each kind that fits.
func (s *Session) vary(ctx context.Context, j *Job, pipeline bool) ([]Point, error) {
	var points []Point
	first := 0 // point of the kind
	for _, v := range variations(&j.Program, pipeline) {
		p, err := s.point(ctx, j, v, true)
		if err != nil {
			return nil, err
		}
		if len(points) > 0 && points[first].Varied != p.Varied {
			markFastest(points[first:])
			first = len(points)
		}
		points = append(points, p)
	}
	markFastest(points[first:])
	return points, nil
}

// variations are the points of a sweep around a program, with one thing changed at a time.
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

// lay puts so many layers on each IPU. How one pipeline shares out its memory says nothing about another.
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

// cuts models the ways to cut the global batch of a phase, for each pipeline over the most replicas with which some
// micro-batch fits. It returns the fastest that fit.
func (s *Session) cuts(ctx context.Context, j *Job, pipeline bool) ([]Point, error) {
	places := []string{""}
	if pipeline {
		places = pipelines(&j.Program)
	}
	var list []Point
	for _, layers := range places {
		found := len(list)
		for replicas := mostReplicas; replicas >= 1 && len(list) == found; replicas /= 2 {
			for micro := 1; micro <= max(64, 2*j.Program.MicroBatch); micro *= 2 {
				v, ok := cut(j.Program.GlobalBatch(), micro, replicas, layers)
				if !ok {
					continue
				}
				p, err := s.point(ctx, j, v, false)
				if err != nil {
					return nil, err
				}
				if p.Fits {
					list = append(list, p)
				}
			}
		}
	}
	slices.SortStableFunc(list, func(a, b Point) int { return cmp.Compare(b.SequencesPerSecond, a.SequencesPerSecond) })
	if len(list) > 0 {
		list[0].Best = true
	}
	return list[:min(cutsShown, len(list))], nil
}

// cut cuts a global batch. It fails when micro-batch and replicas do not divide it.
func cut(global, micro, replicas int, layers string) (variation, bool) {
	accumulation := global / (micro * replicas)
	value := fmt.Sprintf("%d x %d x %d", micro, accumulation, replicas)
	if layers != "" {
		value += ", layers " + layers
	}
	return variation{variedCut, value, func(p *backend.Program) {
		p.MicroBatch, p.Accumulation, p.Replicas = micro, accumulation, replicas
		if layers != "" {
			lay(p, layers)
		}
	}}, accumulation*micro*replicas == global
}

// markFastest marks the point with most sequences a second among those that fit.
func markFastest(points []Point) {
	best := -1
	for i, p := range points {
		if p.Fits && (best < 0 || p.SequencesPerSecond > points[best].SequencesPerSecond) {
			best = i
		}
	}
	if best >= 0 {
		points[best].Fastest = true
	}
}

// point models a variation of a phase. If the system has too few devices for it and grow is set, a larger system of
// the family is modelled: bow-pod64 stands for bow-pod then.
func (s *Session) point(ctx context.Context, j *Job, v variation, grow bool) (Point, error) {
	q := j.Program
	if q.Options = maps.Clone(q.Options); q.Options == nil {
		q.Options = map[string]string{}
	}
	v.change(&q)
	p := Point{
		Phase: j.Phase, Varied: v.varied, Value: v.value,
		MicroBatch: q.MicroBatch, Accumulation: q.Accumulation, Replicas: q.Replicas, LayersPerIPU: q.Options["pipeline"],
	}
	m, err := s.estimator.Estimate(ctx, q, j.Machine)
	name := cmp.Or(j.Machine.System, q.Options["system"], s.defaultSystem)
	if family := strings.TrimRight(name, "0123456789"); err != nil && grow && family != name && j.Machine.Description == "" {
		larger := j.Machine
		larger.System = family
		if other, failed := s.estimator.Estimate(ctx, q, larger); failed == nil {
			m, err = other, nil
		}
	}
	if err == nil {
		p.System, p.SequencesPerSecond, p.StepSeconds = m.System, m.SequencesPerSecond, m.StepSeconds
		p.GlobalBatch, p.PeakShare, p.Fits = m.GlobalBatch, m.PeakShare, m.Fits()
		err = m.Err()
	} else if ctx.Err() != nil {
		return p, err
	}
	if err != nil {
		plugin, _, _ := strings.Cut(s.Backend, ":")
		p.Error = strings.TrimPrefix(err.Error(), fmt.Sprintf("backend %s: estimate: %s: ", plugin, plugin))
	}
	return p, nil
}

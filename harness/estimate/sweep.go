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
)

// Point is one setting of a sweep.
type Point struct {
	Phase              string  `json:"phase"`
	Varied             string  `json:"varied"`
	Value              string  `json:"value"`
	MicroBatch         int     `json:"micro_batch"`
	Accumulation       int     `json:"accumulation"`
	Replicas           int     `json:"replicas"`
	Options            options `json:"options,omitempty"`
	System             string  `json:"system,omitempty"` // that was modelled; see Session.point
	SequencesPerSecond float64 `json:"sequences_per_second,omitempty"`
	Outside            bool    `json:"outside,omitempty"` // the model was checked on no such program, or states no confidence
	StepSeconds        float64 `json:"step_seconds,omitempty"`
	GlobalBatch        int     `json:"global_batch,omitempty"`
	PeakShare          float64 `json:"peak_share,omitempty"`
	Fits               bool    `json:"fits"`
	Error              string  `json:"error,omitempty"`
	Fastest            bool    `json:"fastest,omitempty"` // of the points that vary the same thing and fit
	Best               bool    `json:"best,omitempty"`    // of all cuts of the phase's global batch on the named system
}

// options are those of the backend that a point sets.
type options = map[string]string

// variation changes one thing of a program.
type variation struct {
	varied, value string
	options       options
	change        func(p *backend.Program)
}

// What a sweep varies of any program, besides what the backend varies. The last one is the whole cut of the global
// batch.
const (
	variedReplicas     = "replicas"
	variedMicroBatch   = "micro-batch"
	variedAccumulation = "accumulation"
	variedCut          = "cut"
)

const (
	mostReplicas = 64
	cutsShown    = 5
)

// Sweep models what becomes of each phase when one thing at a time changes, and looks for the fastest cut of its
// global batch.
func (s *Session) Sweep(ctx context.Context) ([]Point, error) {
	var points []Point
	for i := range s.Jobs {
		j := &s.Jobs[i]
		own, err := s.estimator.Variations(ctx, j.Program, j.Machine)
		if err != nil {
			return nil, err
		}
		varied, err := s.vary(ctx, j, own)
		if err != nil {
			return nil, err
		}
		cuts, err := s.cuts(ctx, j, own)
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

// vary models the variations of a phase, the backend's own last, and marks the fastest of each kind that fits.
func (s *Session) vary(ctx context.Context, j *Job, own []backend.Variation) ([]Point, error) {
	var points []Point
	first := 0 // point of the kind
	for _, v := range variations(&j.Program, own) {
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
func variations(p *backend.Program, own []backend.Variation) []variation {
	var list []variation
	add := func(varied string, n int, change func(p *backend.Program)) {
		list = append(list, variation{varied: varied, value: strconv.Itoa(n), change: change})
	}
	for n := 1; n <= mostReplicas; n *= 2 {
		add(variedReplicas, n, func(p *backend.Program) { p.Replicas = n })
	}
	for n := 1; n <= max(64, 2*p.MicroBatch); n *= 2 {
		add(variedMicroBatch, n, func(p *backend.Program) { p.MicroBatch = n })
	}
	for n := max(1, p.Accumulation/16); n <= p.Accumulation*4; n *= 2 {
		add(variedAccumulation, n, func(p *backend.Program) { p.Accumulation = n })
	}
	for _, v := range own {
		list = append(list, variation{v.Varied, v.Value, v.Options, func(p *backend.Program) { maps.Copy(p.Options, v.Options) }})
	}
	return list
}

// cuts models the ways to cut the global batch of a phase, for each of the backend's variations over the most replicas
// with which some micro-batch fits. It returns the fastest that fit.
func (s *Session) cuts(ctx context.Context, j *Job, own []backend.Variation) ([]Point, error) {
	if len(own) == 0 {
		own = []backend.Variation{{}} // the program as it is
	}
	var list []Point
	for _, o := range own {
		found := len(list)
		for replicas := mostReplicas; replicas >= 1 && len(list) == found; replicas /= 2 {
			for micro := 1; micro <= max(64, 2*j.Program.MicroBatch); micro *= 2 {
				v, ok := cut(j.Program.GlobalBatch(), micro, replicas, o)
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

// cut cuts a global batch, with a variation of the backend. It fails when micro-batch and replicas do not divide the
// batch.
func cut(global, micro, replicas int, own backend.Variation) (variation, bool) {
	accumulation := global / (micro * replicas)
	value := fmt.Sprintf("%d x %d x %d", micro, accumulation, replicas)
	if own.Varied != "" {
		value += fmt.Sprintf(", %s %s", own.Varied, own.Value)
	}
	return variation{variedCut, value, own.Options, func(p *backend.Program) {
		p.MicroBatch, p.Accumulation, p.Replicas = micro, accumulation, replicas
		maps.Copy(p.Options, own.Options)
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

// point models a variation of a phase. With grow, a larger system of the family stands in for one that has too few
// devices.
func (s *Session) point(ctx context.Context, j *Job, v variation, grow bool) (Point, error) {
	q, on := j.Program, j.Machine
	if q.Options = maps.Clone(q.Options); q.Options == nil {
		q.Options = options{}
	}
	v.change(&q)
	on.Grow = grow
	p := Point{
		Phase: j.Phase, Varied: v.varied, Value: v.value,
		MicroBatch: q.MicroBatch, Accumulation: q.Accumulation, Replicas: q.Replicas, Options: v.options,
	}
	m, err := s.estimator.Estimate(ctx, q, on)
	if err == nil {
		p.System, p.SequencesPerSecond, p.StepSeconds = m.System, m.SequencesPerSecond, m.StepSeconds
		p.GlobalBatch, p.PeakShare, p.Fits = m.GlobalBatch, m.PeakShare, m.Fits()
		p.Outside = m.Confidence == nil || !m.Confidence.Inside
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

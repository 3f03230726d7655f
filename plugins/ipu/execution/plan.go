// Package execution says how IPUs run a program: which unit of the model is on which IPU, in which order stages work,
// and what lies where in memory.
//
// Parse reads a Plan from the options of a program. The backend executes the plan (core/emulator) and the model of the
// machine prices it (plugins/ipu/costmodel), so an option means the same to both. Fields of the plan that an emulation
// has no use for, such as the place of the optimizer's state, are choices of the machine alone.
package execution

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/emulator"
	"harness.invalid/core/option"
)

// Plan is how IPUs run a program.
type Plan struct {
	// Plan is what runs: complete, with stages, schedule and recomputation.
	emulator.Plan
	// Layers on each IPU of a replica.
	Layers Layers
	// LayersPerPhase is the number of layers in a phase where one IPU goes through the model phase by phase; 0: no
	// phases.
	LayersPerPhase int
	// EmbeddingParts is the number of slices of the vocabulary in which embeddings and decoder are computed.
	EmbeddingParts int

	// What follows changes time and memory of the machine, and nothing that an emulation does.

	// OpenRecompute leaves recomputation to the model of the machine. The run keeps all activations.
	OpenRecompute bool
	// State is where the optimizer's state is; AnyState leaves it open.
	State State
	// Sharded replicas keep and update a share of the optimizer's state each.
	Sharded bool
	// Proportions bound the part of a tile's memory that a matrix product may take (availableMemoryProportion): one for
	// all IPUs, or one for each. nil leaves them open.
	Proportions []float64
}

// State is where the optimizer's state is.
type State string

// The places.
const (
	AnyState State = "auto"    // where the program fits and is fastest
	OnChip   State = "onchip"  // in the memory of the tiles
	OffChip  State = "offchip" // in Streaming Memory
)

// Values of options.
const (
	wholeModel = "all"       // pipeline: no pipeline
	published  = "published" // pipeline: that of the published configurations
	auto       = "auto"
	pipelined  = "pipelined"
	phased     = "phased"
)

// Options are those that make a plan.
var Options = []option.Option{
	{Name: "pipeline", Default: wholeModel, Doc: "layers on each IPU of a replica, such as 3,7,7,7; all: one IPU; " +
		"published: as Graphcore places BERT-Large and Base"},
	{Name: "schedule", Default: string(emulator.Grouped), Doc: "of the pipeline: grouped, interleaved or sequential"},
	{Name: "recomputation", Default: auto, Doc: "activations computed again for the backward pass: none, all but the inputs " +
		"of each layer or stage; auto: none in the run, what fits in modelled time and memory"},
	{Name: "execution", Default: pipelined, Doc: "pipelined, or phased: phases of layers follow each other on one IPU, " +
		"weights come from Streaming Memory"},
	{Name: "layers_per_phase", Default: "2", Doc: "layers of a phase with execution=phased"},
	{Name: "embedding_serialization", Default: "1", Doc: "slices of the vocabulary in which embeddings and decoder are computed"},
	{Name: "replicated_tensor_sharding", Default: "true", Doc: "each replica keeps and updates a share of the optimizer's " +
		"state (modelled time and memory)"},
	{Name: "optimizer_state", Default: string(AnyState), Doc: "where the optimizer's state is: onchip, offchip (in Streaming " +
		"Memory), or auto: where it fits (modelled time and memory)"},
	{Name: "available_memory_proportion", Default: auto, Doc: "part of a tile's memory for matrix products, of all IPUs or " +
		"of each; auto: what fits (modelled time and memory)"},
}

// Parse reads the plan of a program from its options. Options of other names are passed over: a backend knows which of
// those there are. A plan that does not suit the model or the accumulation is an error that says what does.
func Parse(p *backend.Program) (Plan, error) {
	given := map[string]string{}
	for _, o := range Options {
		if value, ok := p.Options[o.Name]; ok {
			given[o.Name] = value
		}
	}
	v, err := option.Read(Options, given)
	if err != nil {
		return Plan{}, err
	}
	plan := Plan{
		Plan:           emulator.Plan{Schedule: emulator.Schedule(v.OneOf("schedule", emulator.Schedules()...))},
		EmbeddingParts: v.Int("embedding_serialization", 1, 1<<10),
		State:          State(v.OneOf("optimizer_state", string(AnyState), string(OnChip), string(OffChip))),
		Sharded:        v.Bool("replicated_tensor_sharding"),
	}
	recompute := v.OneOf("recomputation", append([]string{auto}, emulator.Recomputes()...)...)
	if plan.OpenRecompute = recompute == auto; !plan.OpenRecompute {
		plan.Recompute = bert.Recompute(recompute)
	}
	way, perPhase := v.OneOf("execution", pipelined, phased), v.Int("layers_per_phase", 1, 1<<10)
	if err := v.Err(); err != nil {
		return Plan{}, err
	}
	if plan.Proportions, err = readProportions(v.Text("available_memory_proportion")); err != nil {
		return Plan{}, err
	}
	if way == phased {
		plan.LayersPerPhase = perPhase
	}
	if err := plan.place(v.Text("pipeline"), p); err != nil {
		return Plan{}, err
	}
	if n := len(plan.Proportions); n > 1 && n != len(plan.Layers) {
		return Plan{}, fmt.Errorf("option available_memory_proportion has %d numbers for %d IPUs, want one for all or one for each",
			n, len(plan.Layers))
	}
	plan.Plan, err = plan.Complete(&p.Model, p.Accumulation)
	return plan, err
}

// place lays out the stages.
func (p *Plan) place(pipeline string, of *backend.Program) error {
	layers, err := readLayers(pipeline, &of.Model)
	if err != nil {
		return err
	}
	switch {
	case p.LayersPerPhase > 0 && pipeline != wholeModel && pipeline != published:
		return fmt.Errorf("options execution=phased and pipeline=%s: phases follow each other on one IPU, want pipeline=all",
			pipeline)
	case p.LayersPerPhase > 0:
		p.Layers = Layers{float64(of.Model.NumHiddenLayers)}
		p.Schedule, p.Stages = emulator.Sequential, phases(&of.Model, p.LayersPerPhase)
	default:
		p.Layers, p.Stages = layers, layers.stages(&of.Model, of.Head)
	}
	return nil
}

// readProportions reads numbers above 0 and up to 1; none for auto.
func readProportions(text string) ([]float64, error) {
	if text == auto {
		return nil, nil
	}
	var list []float64
	for field := range strings.SplitSeq(text, ",") {
		f, err := strconv.ParseFloat(strings.TrimSpace(field), 64)
		if err != nil || !(f > 0 && f <= 1) {
			return nil, fmt.Errorf("option available_memory_proportion is %q, want a number above 0 and up to 1, or one for each "+
				"IPU with commas between", text)
		}
		list = append(list, f)
	}
	return list, nil
}

// Proportion is the bound of an IPU, of proportions that are given.
func (p *Plan) Proportion(ipu int) float64 {
	if len(p.Proportions) == 1 {
		return p.Proportions[0]
	}
	return p.Proportions[ipu]
}

// IPUs is how many IPUs of a system a replica takes: IPUs are attached by powers of two. Source: PopTorch user guide,
// Options.autoRoundNumIPUs.
func (p *Plan) IPUs() int {
	return 1 << bits.Len(uint(len(p.Layers)-1))
}

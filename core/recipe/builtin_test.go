package recipe

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"harness.invalid/core/bert"
)

// TestTraps holds what silently differs between systems: how initial values are drawn, and in what format the first
// moment is kept. Sources: use_half_optimizer_state and enable_half_first_order_momentum in graphcore/examples,
// with the loss scale of the same file; modeling.py of each system.
func TestTraps(t *testing.T) {
	for name, want := range map[string]struct {
		initializer   bert.Initializer
		moment, scale string
	}{
		"google/squad-base":               {"", "", ""},
		"graphcore/popart/large-phase1":   {"", "", ""},
		"graphcore/popart/squad-base":     {"", "fp16", "256"},
		"graphcore/popart/squad-large":    {"", "fp16", "64"},
		"graphcore/pytorch/squad-base":    {"", "fp16", "64"},
		"graphcore/pytorch/squad-large":   {"", "fp16", "64"},
		"optimum/bert-base-uncased-squad": {bert.Normal, "fp16", "64"},
		"optimum/large":                   {bert.Normal, "", ""},
		"nvidia/large":                    {bert.NVIDIA, "", ""},
		"nvidia/squad-large":              {bert.NVIDIA, "", ""},
	} {
		r, err := Load(name)
		if err != nil {
			t.Error(err)
			continue
		}
		o := r.Phases[0].Optimizer.Options
		if r.Model.Initializer != want.initializer || o["first_moment"] != want.moment || o["first_moment_scale"] != want.scale {
			t.Errorf("%s: initializer %q, first moment %q times %q, want %+v", name, r.Model.Initializer, o["first_moment"],
				o["first_moment_scale"], want)
		}
		if want.scale != "" && want.scale != r.ForBackend("ipu", "", r.Phases[0].Name).Options["loss_scale"] {
			t.Errorf("%s: the first moment is kept times %s, which is not the loss scale", name, want.scale)
		}
	}
}

// TestPublished holds recipes against the published figures that say what a configuration is: its batch, its
// length, its rate. Sources: graphcore/examples v2.1.0, v2.6.0 and v3.4.1; NVIDIA/DeepLearningExamples PyTorch
// BERT; google-research/bert.
func TestPublished(t *testing.T) {
	for name, want := range map[string]struct {
		global, length, predictions, steps int
		rate                               float64
	}{
		"large-phase1":                                {65536, 128, 20, 7038, 0.006},
		"large-phase2-384":                            {16384, 384, 56, 2137, 0.002828427125},
		"large-phase2-512":                            {16384, 512, 76, 2137, 0.002828427125},
		"base-phase1":                                 {65536, 128, 20, 7038, 0.006},
		"base-phase2-384":                             {16384, 384, 56, 2137, 0.002828427125},
		"squad-base":                                  {128, 384, 0, 0, 5.5e-5},
		"squad-large":                                 {256, 384, 0, 0, 5.1e-5},
		"graphcore/popart/large-phase1-pod64":         {65536, 128, 20, 7038, 0.006},
		"graphcore/pytorch/large-phase1":              {65536, 128, 20, 7038, 0.006},
		"graphcore/pytorch/large-phase1-pod4":         {65536, 128, 20, 7038, 0.006},
		"graphcore/pytorch/large-phase1-pod64":        {65536, 128, 20, 7038, 0.006},
		"graphcore/pytorch/large-phase2-512":          {16384, 512, 76, 2137, 0.002828},
		"graphcore/pytorch/squad-base":                {32, 384, 0, 0, 6e-5},
		"graphcore/pytorch/squad-large":               {256, 384, 0, 0, 5e-5},
		"graphcore/pytorch/squad-large-4x4":           {512, 384, 0, 0, 5e-5},
		"graphcore/tensorflow/large-phase1":           {65600, 128, 20, 7032, 0.006},
		"graphcore/tensorflow/large-phase1-pod32":     {66560, 128, 20, 7032, 0.006},
		"graphcore/tensorflow/large-phase1-pod64":     {66560, 128, 20, 7032, 0.006},
		"graphcore/tensorflow/large-phase1-pod128":    {66560, 128, 20, 7032, 0.006},
		"graphcore/tensorflow/large-phase2-384":       {16400, 384, 58, 2099, 0.002828},
		"graphcore/tensorflow/base-phase1":            {65280, 128, 20, 7032, 0.006},
		"graphcore/tensorflow/squad-large":            {1040, 384, 0, 0, 9e-5},
		"graphcore/tensorflow2/large-phase1":          {65280, 128, 20, 7038, 0.006},
		"graphcore/tensorflow2/large-phase1-pod64":    {66560, 128, 20, 7038, 0.006},
		"graphcore/tensorflow2/squad-large":           {320, 384, 0, 0, 0.001},
		"nvidia/large-phase1":                         {65536, 128, 20, 7038, 6e-3},
		"nvidia/large-phase2-512":                     {32768, 512, 80, 1563, 4e-3},
		"nvidia/squad-large":                          {256, 384, 0, 0, 4.6e-5},
		"google/base-phase1":                          {256, 128, 20, 900000, 1e-4},
		"google/squad-base":                           {12, 384, 0, 0, 3e-5},
		"optimum/bert-base-uncased-squad":             {128, 384, 0, 0, 9e-5},
		"graphcore/tensorflow/large-phase2-384-pod64": {16640, 384, 58, 2099, 0.002828},
	} {
		r, err := Load(name)
		if err != nil {
			t.Error(err)
			continue
		}
		p := r.Phases[0]
		if p.GlobalBatch != want.global || p.Length != want.length || p.MaxPredictions != want.predictions || p.Steps != want.steps ||
			p.OptimizerNamed("").LearningRate != want.rate {
			t.Errorf("%s: global batch %d, length %d, predictions %d, steps %d, rate %g, want %+v", name, p.GlobalBatch, p.Length,
				p.MaxPredictions, p.Steps,
				p.OptimizerNamed("").LearningRate, want)
		}
	}
}

// TestBuiltinPipelines: the stages of a recipe hold all layers of its model, and its replicas fit its system.
func TestBuiltinPipelines(t *testing.T) {
	seen := 0
	for _, name := range Names() {
		r, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range r.Phases {
			b := r.ForBackend("ipu", "", p.Name)
			stages, ok := b.Options["pipeline"]
			if !ok {
				continue
			}
			seen++
			layers, ipus := 0, 0
			for s := range strings.SplitSeq(stages, ",") {
				n, err := strconv.Atoi(s)
				if err != nil {
					t.Fatalf("%s: pipeline %q: %v", name, stages, err)
				}
				layers += n
				ipus++
			}
			if layers != r.Model.NumHiddenLayers {
				t.Errorf("%s: the pipeline %s holds %d layers, the model has %d", name, stages, layers, r.Model.NumHiddenLayers)
			}
			cut, err := p.Cut(b)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			system := b.Options["system"]
			var has int
			if _, err := fmt.Sscanf(system[strings.Index(system, "-pod"):], "-pod%d", &has); err != nil || ipus*cut.Replicas > has {
				t.Errorf("%s: %d replicas of %d IPUs do not fit %s", name, cut.Replicas, ipus, system)
			}
		}
	}
	if seen < 30 {
		t.Errorf("only %d phases have a pipeline", seen)
	}
}

// TestFlavours: where recipes of one name differ between systems, fields say so, not words.
func TestFlavours(t *testing.T) {
	graphcore, nvidia := mustLoad(t, "graphcore/popart/large-phase1"), mustLoad(t, "nvidia/large-phase1")
	if g, n := graphcore.Model, nvidia.Model; g.LayerNormEps != 1e-3 || n.LayerNormEps != 1e-12 || g.AttentionMask != -1000 ||
		n.AttentionMask != -10000 {
		t.Errorf("layer norm and mask are %g, %g and %g, %g", g.LayerNormEps, g.AttentionMask, n.LayerNormEps, n.AttentionMask)
	}
	if a := mustLoad(t, "optimum/bert-base-uncased-squad").Model.HiddenAct; a != bert.GELU {
		t.Errorf("Hugging Face's model has the activation %s, want %s", a, bert.GELU)
	}
	p := nvidia.Phases[0]
	if before, after := p.Schedule.LR(2000, p.Steps), p.Schedule.LR(2001, p.Steps); before < 5.99e-3 || after > 5.09e-3 {
		t.Errorf("NVIDIA's rate goes from %g to %g at the end of the warm-up, want a jump", before, after)
	}
	if b := mustLoad(t, "nvidia/squad-large-bertadam").Phases[0]; b.Optimizer.Options["clip_by"] != "tensor" || b.Schedule.LR(1, 100) != 0 {
		t.Errorf("BertAdam has %+v and a first rate of %g", b.Optimizer, b.Schedule.LR(1, 100))
	}
	if f := mustLoad(t, "nvidia/squad-large").Phases[0]; f.Optimizer.Options["clip_by"] != "global" || f.Schedule.LR(1, 100) == 0 {
		t.Errorf("FusedAdam has %+v and a first rate of %g", f.Optimizer, f.Schedule.LR(1, 100))
	}
	both := mustLoad(t, "nvidia/large")
	if len(both.Phases) != 2 || both.Phases[0].CarryOptimizerState || !both.Phases[1].CarryOptimizerState ||
		both.Phases[1].GlobalBatch != 32768 {
		t.Errorf("nvidia/large has the phases %+v", both.Phases)
	}
}

func mustLoad(t *testing.T, ref string, overrides ...string) *Recipe {
	t.Helper()
	r, err := Load(ref, overrides...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

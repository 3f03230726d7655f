package shrink_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"harness.invalid/core/backend"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/recipe"
	"harness.invalid/core/tensor"
	"harness.invalid/harness/shrink"
	"harness.invalid/harness/train"
	gpuref "harness.invalid/plugins/gpu-ref"
	"harness.invalid/plugins/ipu"
	"harness.invalid/plugins/optimizers/adamw"
	"harness.invalid/plugins/optimizers/lamb"
	"harness.invalid/results"
)

// TestMain uses one thread, since the models are very small.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	os.Exit(m.Run())
}

// plugins run in the process of the test.
type plugins struct{ backend backend.Backend }

func (p plugins) Backend() backend.Backend { return p.backend }

func (plugins) Optimizer(_ context.Context, name string) (optimizer.Optimizer, error) {
	switch name {
	case "adamw":
		return adamw.New(), nil
	case "lamb":
		return lamb.New(), nil
	}
	return nil, errors.New("no such optimizer")
}

func (plugins) Allocate(l *tensor.Layout, slots int) (train.Memory, error) {
	m := train.Memory{Layout: l, Params: make([]float32, l.Len()), Grads: make([]float32, l.Len())}
	for range slots {
		m.Slots = append(m.Slots, make([]float32, l.Len()))
	}
	return m, nil
}

// TestPublishedRun trains every published recipe of IPUs and of NVIDIA, scaled down, for a few steps on its backend: each
// step has finite gradients or was skipped by a dynamic loss scale, and what ran is a pipeline on as many IPUs as were
// published.
func TestPublishedRun(t *testing.T) {
	world := filepath.Join(t.TempDir(), "world")
	ran := map[string]int{}
	for _, name := range recipe.Names() {
		backend := "ipu"
		switch system, _, _ := strings.Cut(name, "/"); system {
		case "graphcore", "optimum":
		case "nvidia":
			backend = "gpu-ref"
		default:
			continue
		}
		big := load(t, name)
		dir := t.TempDir()
		r := smaller(t, big)
		run(t, r, backend, world, dir)
		ran[backend]++
		checkSteps(t, r, dir)
		if backend == "ipu" {
			checkPipeline(t, big, dir)
		}
	}
	if ran["ipu"] < 45 || ran["gpu-ref"] < 6 {
		t.Errorf("only these many recipes ran: %v", ran)
	}
}

// smaller scales a recipe down, and its model and data further than shrink does, to save time.
func smaller(t *testing.T, big *recipe.Recipe) *recipe.Recipe {
	t.Helper()
	r, err := shrink.Recipe(big, shrink.Settings{Sequences: 30, Steps: 2})
	if err != nil {
		t.Fatal(err)
	}
	r.Start = nil // a model that is trained first, for many steps
	c := &r.Model.Config
	c.HiddenSize, c.NumAttentionHeads, c.IntermediateSize = 16, 2, 32
	r.Vocab.Size, r.Data.HeldOut = 300, 0.3
	if r.Data.Kind == recipe.GeneratedData {
		r.Data.Generated = recipe.Generated{Seed: 1, People: 50, Questions: 40, DevQuestions: 2}
	}
	tasks := "../../docs/testdata/tasks/"
	r.Data.Files.Text = []string{"testdata/text.txt"}
	r.Data.Files.Set("mrpc", recipe.TaskFiles{
		Train: []string{tasks + "MRPC/msr_paraphrase_train.txt"}, Dev: []string{tasks + "MRPC/msr_paraphrase_test.txt"}})
	r.Data.Files.Set("sst-2", recipe.TaskFiles{Train: []string{tasks + "SST-2/train.tsv"}, Dev: []string{tasks + "SST-2/dev.tsv"}})
	r.Data.Files.Set("squad2", recipe.TaskFiles{Train: []string{"testdata/squad2.json"}, Dev: []string{"testdata/squad2.json"}})
	for i := range r.Phases {
		p := &r.Phases[i]
		p.Length, p.MaxPredictions = p.Length/4, (p.MaxPredictions+3)/4
		if q := p.QuestionAnswering; q != nil {
			q.DocStride, q.MaxQueryLength, q.MaxAnswerLength = q.DocStride/4, q.MaxQueryLength/2, q.MaxAnswerLength/4
		}
		p.Steps, p.Evaluation.Sequences = 2, 2
		p.Schedule.WarmupSteps = min(p.Schedule.WarmupSteps, 1)
	}
	return r
}

func run(t *testing.T, r *recipe.Recipe, backend, world, dir string) {
	t.Helper()
	if r.Data.Kind != recipe.GeneratedData {
		world = filepath.Join(dir, "data")
		if err := os.Mkdir(world, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	data, err := train.OpenData(r, world, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	p := plugins{ipu.New()}
	if backend == "gpu-ref" {
		p = plugins{gpuref.New()}
	}
	_, err = train.Run(t.Context(), train.Job{Recipe: r, Data: data, Backend: backend, Seed: 1, Plugins: p, Dir: dir,
		Identity: results.Identity{Recipe: r.Name, Fingerprint: r.Fingerprint(), Backend: backend, Optimizer: "own", Seed: 1}})
	if err != nil {
		t.Errorf("%s on %s: %v", r.Name, backend, err)
	}
}

// checkSteps holds the steps of a run against its recipe.
func checkSteps(t *testing.T, r *recipe.Recipe, dir string) {
	t.Helper()
	record, err := results.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	n, skipped := 0, 0
	for s, err := range record.Steps() {
		if err != nil {
			t.Fatal(err)
		}
		p, _ := r.Phase(s.Phase)
		if n++; !s.Finite {
			skipped++
		}
		if s.Sequences < p.GlobalBatch {
			t.Errorf("%s: step %d of %s has %d sequences, want %d", r.Name, s.Step, s.Phase, s.Sequences, p.GlobalBatch)
		}
	}
	if want := 2 * len(r.Phases); n != want {
		t.Errorf("%s: %d steps, want %d", r.Name, n, want)
	}
	if dynamic := strings.HasPrefix(r.Name, "nvidia/"); skipped > 0 && !dynamic {
		t.Errorf("%s: %d steps of %d were skipped", r.Name, skipped, n)
	}
}

// checkPipeline holds the IPUs that a run says it ran on against those of the full size.
func checkPipeline(t *testing.T, big *recipe.Recipe, dir string) {
	t.Helper()
	for i := range big.Phases {
		p := &big.Phases[i]
		want := 1 + strings.Count(big.ForBackend("ipu", "", p.Name).Options["pipeline"], ",")
		text, err := os.ReadFile(filepath.Join(dir, p.Name+".schedule.json"))
		if errors.Is(err, os.ErrNotExist) && want == 1 {
			continue
		}
		if err != nil {
			t.Error(err)
			continue
		}
		var ran struct {
			Stages []struct {
				Device int `json:"device"`
			} `json:"stages"`
		}
		if err := json.Unmarshal(text, &ran); err != nil {
			t.Fatal(err)
		}
		var devices []int
		for _, s := range ran.Stages {
			devices = append(devices, s.Device)
		}
		slices.Sort(devices)
		if got := len(slices.Compact(devices)); got != want {
			t.Errorf("%s, %s: ran on %d IPUs, want %d:\n%.300s", big.Name, p.Name, got, want, text)
		}
	}
}

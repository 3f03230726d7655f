package python_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/optimizer/optimizertest"
	"harness.invalid/core/plugin"
	"harness.invalid/core/plugin/host"
	"harness.invalid/core/plugin/python"
	"harness.invalid/core/tensor"
)

// found is an interpreter that has what the SDK imports, searched for once.
var found = sync.OnceValues(func() (string, error) { return python.Interpreter(context.Background(), python.Modules) })

// interpreter is that one. The test is skipped where there is none.
func interpreter(t testing.TB) string {
	t.Helper()
	path, err := found()
	if errors.Is(err, python.ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// spec runs a program of testdata on the SDK as harness installs it.
func spec(t testing.TB, transport host.Transport, args ...string) host.Spec {
	t.Helper()
	path := interpreter(t)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	archive, err := python.Archive(python.SDK())
	if err != nil {
		t.Fatal(err)
	}
	sdk, err := python.Install("harness_plugin", archive)
	if err != nil {
		t.Fatal(err)
	}
	limit := 2 * time.Minute // for a busy machine
	return host.Spec{
		Kind: plugin.Optimizer, Name: "pythonic", Path: path, Args: args, Env: []string{"PYTHONPATH=" + sdk}, Threads: 1, Transport: transport,
		Timeouts: host.Timeouts{Start: limit, Call: limit, Open: limit, Step: limit},
	}
}

func start(t testing.TB, s host.Spec) *host.Process {
	t.Helper()
	p, err := host.Launch(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return p
}

// TestExamples checks two plugins against the contract: the one that the documentation shows, and one that probes and
// averages. A script test runs the first over the stream.
func TestExamples(t *testing.T) {
	for _, test := range []struct {
		name      string
		transport host.Transport
	}{{"signum", host.Memory}, {"lookout", host.Memory}, {"lookout", host.Stream}} {
		t.Run(test.name+"/"+string(test.transport), func(t *testing.T) {
			o := start(t, spec(t, test.transport, "testdata/harness-optimizer-"+test.name)).Optimizer()
			info, err := o.Describe(t.Context())
			if more := test.name == "lookout"; err != nil || info.Probes != more || info.Averages != more {
				t.Errorf("it says %+v, error %v", info, err)
			}
			c, err := optimizer.CostOf(t.Context(), o, nil, layout(t))
			if stated := test.name == "lookout"; err != nil || (c.Assumed == "") != stated || c.Probes != stated {
				t.Errorf("its cost is %+v, error %v", c, err)
			}
			for _, r := range optimizertest.Conformance(t.Context(), o) {
				if r.Err != nil {
					t.Errorf("%s: %v", r.Name, r.Err)
				}
			}
		})
	}
}

// layout is that of one tensor.
func layout(t *testing.T) *tensor.Layout {
	t.Helper()
	l, err := tensor.NewLayout(tensor.Tensor{Name: "w", Shape: tensor.Shape{40}})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// faulty opens a session with a fault.
func faulty(t *testing.T, p *host.Process, fault string) (optimizer.Memory, optimizer.Session) {
	t.Helper()
	l := layout(t)
	m := optimizer.Memory{Layout: l, Params: make([]float32, l.Len()), Grads: make([]float32, l.Len())}
	session, err := p.Optimizer().Open(t.Context(), map[string]string{"fault": fault}, m)
	if err != nil {
		t.Fatal(err)
	}
	return m, session
}

// TestFaults: errors in Python reach the host with their meaning and the end of what the plugin printed. One
// process survives all but those that end it.
func TestFaults(t *testing.T) {
	all := start(t, spec(t, host.Memory, "testdata/faults.py"))
	for _, test := range []struct {
		fault string
		is    error
		wants []string
	}{
		{"bad_value", nil, []string{"optimizer pythonic: step 1: ", "tensor dense.weight has no columns"}},
		{"bug", nil, []string{"AttributeError: ", "no_such_method", "Traceback", "faults.py"}},
		{"long_words", nil, []string{"äää ..."}},
		{"out_of_memory", backend.ErrOutOfMemory, []string{"GPU 0 needs 81 GiB, has 80 GiB"}},
		{"unsupported", backend.ErrUnsupported, []string{"sparse gradients"}},
		{"crash", host.ErrDied, []string{"exit status 3", "tile 311 is on fire"}},
		{"hang", host.ErrDied, []string{"no answer within 500ms, so it was killed", "waiting for the device"}},
	} {
		t.Run(test.fault, func(t *testing.T) {
			p := all
			if test.is == host.ErrDied {
				s := spec(t, host.Memory, "testdata/faults.py")
				if test.fault == "hang" {
					s.Timeouts.Step = 500 * time.Millisecond
				}
				p = start(t, s)
			}
			_, session := faulty(t, p, test.fault)
			_, err := session.Step(t.Context(), optimizer.Step{Step: 1, LR: 1})
			if err == nil {
				t.Fatal("no error")
			}
			if test.is != nil && !errors.Is(err, test.is) {
				t.Errorf("error is not %q: %v", test.is, err)
			}
			for _, want := range test.wants {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error has no %q: %v", want, err)
				}
			}
		})
	}
}

// TestGradientNorm: a rule gets the norm that the host computed, or, if there is none, that of its gradients.
func TestGradientNorm(t *testing.T) {
	m, session := faulty(t, start(t, spec(t, host.Memory, "testdata/faults.py")), "slow")
	m.Grads[0], m.Grads[1] = 3, 4
	for told, want := range map[float64]float64{0: 5, 7: 7} {
		if r, err := session.Step(t.Context(), optimizer.Step{Step: 1, LR: 1, GradientNorm: told}); err != nil || r.GradientNorm != want {
			t.Errorf("told a norm of %g, it reports %g (error %v), want %g", told, r.GradientNorm, err, want)
		}
	}
}

// TestCancelled: a cancelled call returns only once the plugin no longer touches memory.
func TestCancelled(t *testing.T) {
	m, session := faulty(t, start(t, spec(t, host.Memory, "testdata/faults.py")), "slow")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := session.Step(ctx, optimizer.Step{Step: 1, LR: 1}); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("error %v, want that of the context", err)
	}
	m.Params[0] = 7
	if _, err := session.Step(t.Context(), optimizer.Step{Step: 1, LR: 1}); err != nil || m.Params[0] != 42 {
		t.Errorf("after a cancelled call, parameter %g and error %v, want 42 and none", m.Params[0], err)
	}
}

// TestHostGone closes the lifeline of a plugin that nothing else would end, and checks its handshake without TLS.
func TestHostGone(t *testing.T) {
	s := spec(t, host.Memory, "testdata/faults.py")
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	cmd := exec.CommandContext(t.Context(), s.Path, s.Args...)
	cmd.Env = append(s.Env, "HARNESS_PLUGIN=5f0c4e0e0a2b4c2f9f6d1c7b8a3e2d10", "HARNESS_LIFELINE_FD=3", "PLUGIN_UNIX_SOCKET_DIR="+t.TempDir())
	cmd.ExtraFiles = []*os.File{read}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	fields := strings.Split(strings.TrimSpace(line), "|")
	if err != nil || len(fields) != 6 || !slices.Equal(slices.Delete(fields, 3, 4), []string{"1", "1", "unix", "grpc", ""}) {
		t.Errorf("handshake is %q, error %v", line, err)
	}
	if err := write.Close(); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, out)
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 1 || !strings.Contains(stderr.String(), "the host is gone") {
		t.Errorf("it ended with %v and said %q", err, stderr.String())
	}
}

// TestKind: an optimizer is no backend, and the error says so.
func TestKind(t *testing.T) {
	s := spec(t, host.Memory, "testdata/harness-optimizer-signum")
	s.Kind = plugin.Backend
	p, err := host.Launch(t.Context(), s)
	if err == nil {
		_ = p.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "it is a plugin, but no backend") {
		t.Errorf("error %v, want one that says that it is no backend", err)
	}
}

// TestByHand: a plugin that is started by hand says what it is.
func TestByHand(t *testing.T) {
	s := spec(t, host.Memory, "testdata/harness-optimizer-signum")
	cmd := exec.CommandContext(t.Context(), s.Path, s.Args...)
	cmd.Env = s.Env
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "harness plugin verify optimizer NAME") {
		t.Errorf("it said %q and ended with %v", out, err)
	}
}

// TestPython runs the tests that are written in Python. They hold the model of the SDK against the tables of core/bert.
func TestPython(t *testing.T) {
	s := spec(t, host.Memory, "-B", "testdata/sdk_test.py")
	cmd := exec.CommandContext(t.Context(), s.Path, s.Args...)
	cmd.Env = append(s.Env, "HARNESS_MODELS="+models(t))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
}

// models are the parameters and outputs of a small model with each head, as JSON.
func models(t *testing.T) string {
	t.Helper()
	type model struct {
		Model      bert.Config
		Task       bert.Task
		Labels     int
		Parameters []tensor.Tensor
		Outputs    []string
	}
	c := bert.Config{
		VocabSize: 61, HiddenSize: 24, NumHiddenLayers: 2, NumAttentionHeads: 2, IntermediateSize: 40, HiddenAct: bert.GELU,
		MaxPositionEmbeddings: 20, TypeVocabSize: 3, InitializerRange: 0.02, LayerNormEps: 1e-12, AttentionMask: -10000,
	}
	var list []model
	for _, h := range []bert.Head{
		{Task: bert.Pretraining}, {Task: bert.QuestionAnswering}, {Task: bert.Classification, Labels: 1}, {Task: bert.Classification, Labels: 3},
		{Task: bert.MultipleChoice, Labels: 3}, {Task: bert.TokenClassification, Labels: 3},
	} {
		l, err := bert.Parameters(c, h)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, model{c, h.Task, h.Labels, l.Tensors(), bert.OutputNames(c, h)})
	}
	text, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestArchive(t *testing.T) {
	files := fstest.MapFS{
		"__main__.py":      {Data: []byte("import part.words")},
		"part/words.py":    {Data: []byte("print('said')")},
		"part/__init__.py": {},
	}
	archive, err := python.Archive(python.SDK(), files)
	if err != nil {
		t.Fatal(err)
	}
	again, err := python.Archive(python.SDK(), files)
	if err != nil || !bytes.Equal(again, archive) {
		t.Errorf("a second archive differs from the first; error %v", err)
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	path, err := python.Install("test", archive)
	if err != nil {
		t.Fatal(err)
	}
	// A file that was changed in the cache is restored.
	if err := os.WriteFile(path, []byte("import os"), 0o666); err != nil {
		t.Fatal(err)
	}
	if same, err := python.Install("test", archive); err != nil || same != path {
		t.Errorf("installed again as %s, error %v, want %s", same, err, path)
	}
	if there, err := os.ReadFile(path); err != nil || !bytes.Equal(there, archive) {
		t.Errorf("the file in the cache is not the archive; error %v", err)
	}
	if python3, err := exec.LookPath("python3"); err == nil {
		if out, err := exec.CommandContext(t.Context(), python3, path).CombinedOutput(); err != nil || string(out) != "said\n" {
			t.Errorf("the archive ran with %v and %q", err, out)
		}
	}
}

// TestSDK: the binary has every file of the package.
func TestSDK(t *testing.T) {
	want, err := filepath.Glob("harness_plugin/*.*")
	if err != nil {
		t.Fatal(err)
	}
	got, err := fs.Glob(python.SDK(), "harness_plugin/*")
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("the binary has %v, the folder %v; error %v", got, want, err)
	}
}

func TestInterpreter(t *testing.T) {
	needs := []python.Module{
		{Name: "no_such.module", Debian: "python3-no-such", PyPI: "no-such"},
		{Name: "sys", Debian: "python3", PyPI: "python"},
	}
	t.Setenv(python.InterpreterVariable, "")
	_, err := python.Interpreter(t.Context(), needs)
	if !errors.Is(err, python.ErrMissing) || !strings.Contains(err.Error(), python.InterpreterVariable) {
		t.Errorf("error %v, want one that says what to do", err)
	}
	if _, lookErr := exec.LookPath("python3"); lookErr == nil {
		for _, want := range []string{"has no no_such.module;", "apt-get install python3-no-such;", "pip install no-such;"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("error has no %q: %v", want, err)
			}
		}
	}
	t.Setenv(python.InterpreterVariable, filepath.Join(t.TempDir(), "python9"))
	_, err = python.Interpreter(t.Context(), needs)
	if !errors.Is(err, python.ErrMissing) || !strings.Contains(err.Error(), "python9 is not there") {
		t.Errorf("error %v, want one that names the interpreter", err)
	}
}

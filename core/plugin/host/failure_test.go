package host_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/plugin"
	"harness.invalid/core/plugin/host"
	"harness.invalid/core/plugin/internal/pb"
	"harness.invalid/core/tensor"
	gpuref "harness.invalid/plugins/gpu-ref"
	"harness.invalid/plugins/optimizers/sgd"
)

// badRoles are plugins with one fault each.
var badRoles = map[string]func(){
	"crash": badOptimizer(func(context.Context, optimizer.Memory) error {
		fmt.Fprintln(os.Stderr, "tile 311 is on fire")
		os.Exit(3)
		return nil
	}),
	"crash-elsewhere": badOptimizer(func(context.Context, optimizer.Memory) error {
		go panic("a goroutine of the plugin")
		select {}
	}),
	"panic": badOptimizer(func(_ context.Context, m optimizer.Memory) error {
		fmt.Println("printed to standard output")
		panic(fmt.Sprintf("slots: %d", len(m.Slots)))
	}),
	"hang": badOptimizer(func(context.Context, optimizer.Memory) error {
		fmt.Fprintln(os.Stderr, "waiting for the device")
		select {}
	}),
	"patient": badOptimizer(func(ctx context.Context, m optimizer.Memory) error {
		<-ctx.Done()
		time.Sleep(300 * time.Millisecond)
		m.Params[0] = 42
		return ctx.Err()
	}),
	"out-of-memory": badOptimizer(func(context.Context, optimizer.Memory) error {
		return fmt.Errorf("tile 311 needs 702 KiB, has 624 KiB: %w", backend.ErrOutOfMemory)
	}),
	"unsupported": badOptimizer(func(context.Context, optimizer.Memory) error {
		return fmt.Errorf("sparse gradients: %w", backend.ErrUnsupported)
	}),

	"nan-gradient": badBackend(func(m backend.Memory, r *backend.StepResult) { m.Grads[1] = float32(math.Inf(1)) }, nil),
	"nan-loss":     badBackend(func(_ backend.Memory, r *backend.StepResult) { r.Losses.MaskedLM.Sum = math.NaN() }, nil),
	"wrong-shape": badBackend(nil, func(o backend.Outputs) {
		o["pooler_output"] = backend.Output{Shape: tensor.Shape{2, 3}, Values: make([]float32, 6)}
	}),
	"missing-output": badBackend(nil, func(o backend.Outputs) { delete(o, "pooler_output") }),

	"version-7": func() {
		goplugin.Serve(&goplugin.ServeConfig{
			HandshakeConfig:  host.Handshake,
			VersionedPlugins: map[int]goplugin.PluginSet{7: {"optimizer": &liar{}}},
			GRPCServer:       goplugin.DefaultGRPCServer,
		})
	},
	"liar": func() {
		goplugin.Serve(&goplugin.ServeConfig{
			HandshakeConfig:  host.Handshake,
			VersionedPlugins: map[int]goplugin.PluginSet{plugin.ProtocolVersion: {"optimizer": &liar{}}},
			GRPCServer:       goplugin.DefaultGRPCServer,
		})
	},
	"early": func() {
		fmt.Fprintln(os.Stderr, "libipu.so: cannot open shared object file")
		os.Exit(4)
	},
	"chatty": func() { fmt.Println("Hello, world!") },
	"mute": func() {
		fmt.Fprintln(os.Stderr, "looking for devices")
		time.Sleep(time.Minute)
	},
}

// badOptimizer serves SGD whose step does something else.
func badOptimizer(step func(ctx context.Context, m optimizer.Memory) error) func() {
	return func() { plugin.ServeOptimizer(faultyOptimizer{sgd.New(), step}) }
}

type faultyOptimizer struct {
	optimizer.Optimizer
	step func(ctx context.Context, m optimizer.Memory) error
}

func (f faultyOptimizer) Open(_ context.Context, _ map[string]string, m optimizer.Memory) (optimizer.Session, error) {
	return faultyUpdates{f, m}, nil
}

type faultyUpdates struct {
	f faultyOptimizer
	m optimizer.Memory
}

func (s faultyUpdates) Step(ctx context.Context, _ optimizer.Step) (optimizer.StepResult, error) {
	return optimizer.StepResult{}, s.f.step(ctx, s.m)
}
func (faultyUpdates) Close() error { return nil }

// badBackend serves gpu-ref with results that were changed.
func badBackend(step func(backend.Memory, *backend.StepResult), outputs func(backend.Outputs)) func() {
	return func() { plugin.ServeBackend(faultyBackend{gpuref.New(), step, outputs}) }
}

type faultyBackend struct {
	backend.Backend
	step    func(backend.Memory, *backend.StepResult)
	outputs func(backend.Outputs)
}

func (f faultyBackend) Open(ctx context.Context, p backend.Program, m backend.Memory) (backend.Session, error) {
	s, err := f.Backend.Open(ctx, p, m)
	return faultySession{s, f, m}, err
}

type faultySession struct {
	backend.Session
	f faultyBackend
	m backend.Memory
}

func (s faultySession) Step(ctx context.Context, step backend.Step, batches iter.Seq2[*bert.Batch, error]) (backend.StepResult, error) {
	r, err := s.Session.Step(ctx, step, batches)
	if s.f.step != nil {
		s.f.step(s.m, &r)
	}
	return r, err
}

func (s faultySession) Evaluate(ctx context.Context, e backend.Evaluation, batches iter.Seq2[*bert.Batch, error], yield func(backend.Outputs) error) (bert.Losses, error) {
	return s.Session.Evaluate(ctx, e, batches, func(o backend.Outputs) error {
		if s.f.outputs != nil {
			s.f.outputs(o)
		}
		return yield(o)
	})
}

// liar answers everything, and sends half of a section.
type liar struct {
	goplugin.NetRPCUnsupportedPlugin
	pb.UnimplementedOptimizerServer
}

func (l *liar) GRPCServer(_ *goplugin.GRPCBroker, s *grpc.Server) error {
	pb.RegisterOptimizerServer(s, l)
	pb.RegisterSectionsServer(s, liarsSections{})
	return nil
}

func (l *liar) GRPCClient(context.Context, *goplugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("only a server")
}

func (l *liar) Describe(context.Context, *pb.DescribeRequest) (*pb.DescribeOptimizerResponse, error) {
	return &pb.DescribeOptimizerResponse{Name: "liar"}, nil
}

func (l *liar) Slots(_ context.Context, r *pb.SlotsRequest) (*pb.SlotsResponse, error) {
	if r.GetOptions()["twice"] != "" {
		return &pb.SlotsResponse{Names: []string{"m", "m"}}, nil
	}
	return &pb.SlotsResponse{}, nil
}

func (l *liar) Open(context.Context, *pb.OpenOptimizerRequest) (*pb.OpenOptimizerResponse, error) {
	return &pb.OpenOptimizerResponse{Session: 1}, nil
}

func (l *liar) Step(context.Context, *pb.OptimizerStepRequest) (*pb.OptimizerStepResponse, error) {
	return &pb.OptimizerStepResponse{}, nil
}

func (l *liar) Close(context.Context, *pb.CloseRequest) (*pb.CloseResponse, error) {
	return &pb.CloseResponse{}, nil
}

type liarsSections struct{ pb.UnimplementedSectionsServer }

func (liarsSections) Push(s grpc.ClientStreamingServer[pb.SectionChunk, pb.PushResponse]) error {
	for {
		if _, err := s.Recv(); err != nil {
			return s.SendAndClose(&pb.PushResponse{})
		}
	}
}

func (liarsSections) Pull(_ *pb.PullRequest, s grpc.ServerStreamingServer[pb.SectionChunk]) error {
	return s.Send(&pb.SectionChunk{Values: make([]byte, 32)})
}

func (liarsSections) Settle(context.Context, *pb.SettleRequest) (*pb.SettleResponse, error) {
	return &pb.SettleResponse{}, nil
}

// updates opens an optimizer's session over a vector of 16 elements.
func updates(t *testing.T, p *host.Process) (optimizer.Session, optimizer.Memory) {
	t.Helper()
	l, err := tensor.NewLayout(tensor.Tensor{Name: "bert.pooler.dense.bias", Shape: tensor.Shape{16}})
	if err != nil {
		t.Fatal(err)
	}
	m := optimizer.Memory{Layout: l, Params: make([]float32, 16), Grads: make([]float32, 16)}
	s, err := p.Optimizer().Open(t.Context(), nil, m)
	if err != nil {
		t.Fatal(err)
	}
	return s, m
}

// TestBadSteps expects one clear error for every way in which an update can go wrong, with the plugin, the call and
// the step in it.
func TestBadSteps(t *testing.T) {
	for role, test := range map[string]struct {
		texts []string
		is    error
		lives bool
	}{
		"crash":           {[]string{"the plugin died (exit status 3)", "tile 311 is on fire"}, host.ErrDied, false},
		"crash-elsewhere": {[]string{"the plugin died (exit status 2)", "panic: a goroutine of the plugin"}, host.ErrDied, false},
		"panic":           {[]string{"panic: slots: 0", "failure_test.go", "printed to standard output"}, nil, true},
		"hang":            {[]string{"no answer within 1s", "was killed", "waiting for the device"}, host.ErrDied, false},
		"out-of-memory":   {[]string{"tile 311 needs 702 KiB, has 624 KiB: out of memory"}, backend.ErrOutOfMemory, true},
		"unsupported":     {[]string{"sparse gradients: unsupported"}, backend.ErrUnsupported, true},
	} {
		for _, transport := range transports {
			t.Run(role+"/"+string(transport), func(t *testing.T) {
				t.Parallel()
				s := spec(t, plugin.Optimizer, role, transport)
				if role == "hang" {
					s.Timeouts.Step = time.Second
				}
				p := start(t, s)
				u, _ := updates(t, p)
				_, err := u.Step(t.Context(), optimizer.Step{Step: 12, LR: 0.1})
				wants(t, err, append(test.texts, "optimizer "+role+": step 12: ")...)
				if test.is != nil && !errors.Is(err, test.is) {
					t.Errorf("error is not %q: %v", test.is, err)
				}
				if !test.lives && errors.Is(err, backend.ErrOutOfMemory) {
					t.Errorf("error has a meaning that nobody gave it: %v", err)
				}
				_, err = p.Optimizer().Describe(t.Context())
				if test.lives && err != nil {
					t.Errorf("after the error the plugin is gone: %v", err)
				}
				if !test.lives && !errors.Is(err, host.ErrDied) {
					t.Errorf("after the plugin died: error %v, want ErrDied", err)
				}
				if err := u.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			})
		}
	}
}

// TestCancelled: a call that was cancelled has returned only when the plugin does not touch memory any more.
func TestCancelled(t *testing.T) {
	p := start(t, spec(t, plugin.Optimizer, "patient", host.Memory))
	u, _ := updates(t, p)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	began := time.Now()
	if _, err := u.Step(ctx, optimizer.Step{Step: 1, LR: 0.1}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
	if d := time.Since(began); d < 350*time.Millisecond {
		t.Errorf("the call came back after %v, while the plugin was still writing", d)
	}
	if _, err := p.Optimizer().Describe(t.Context()); err != nil {
		t.Errorf("after a cancelled call: %v", err)
	}
}

func TestBadBackends(t *testing.T) {
	p := program()
	l, err := bert.Parameters(p.Model, p.Head)
	if err != nil {
		t.Fatal(err)
	}
	for role, texts := range map[string][]string{
		"nan-gradient":   {"step 1: it left +Inf in the gradients of bert.embeddings.word_embeddings.weight, element 1"},
		"nan-loss":       {"step 1: it reports a loss of NaN"},
		"wrong-shape":    {"evaluate: it sent pooler_output with shape [2 3], want [2 32]"},
		"missing-output": {"evaluate: it did not send output pooler_output"},
	} {
		for _, transport := range transports {
			t.Run(role+"/"+string(transport), func(t *testing.T) {
				t.Parallel()
				m := backend.Memory{Layout: l, Params: make([]float32, l.Len()), Grads: make([]float32, l.Len())}
				bert.Initialize(p.Model, l, m.Params, 1)
				s, err := start(t, spec(t, plugin.Backend, role, transport)).Backend().Open(t.Context(), p, m)
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				if err := s.Commit(t.Context(), 0); err != nil {
					t.Fatal(err)
				}
				_, err = s.Step(t.Context(), stepOf(p, 1), batches(p, 1))
				if err == nil {
					_, err = s.Evaluate(t.Context(), backend.Evaluation{Outputs: []string{"pooler_output"}}, batches(p, 1), func(backend.Outputs) error { return nil })
				}
				wants(t, err, append(texts, "backend "+role)...)
			})
		}
	}
}

// TestNotFinite: a commit of parameters that are not finite is an error, whoever left them so.
func TestNotFinite(t *testing.T) {
	p := program()
	l, err := bert.Parameters(p.Model, p.Head)
	if err != nil {
		t.Fatal(err)
	}
	for _, transport := range transports {
		m := backend.Memory{Layout: l, Params: make([]float32, l.Len()), Grads: make([]float32, l.Len())}
		bert.Initialize(p.Model, l, m.Params, 1)
		s, err := start(t, spec(t, plugin.Backend, "gpu-ref", transport)).Backend().Open(t.Context(), p, m)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		bias, _ := l.Lookup("bert.pooler.dense.bias")
		before := bias.Of(m.Params)[1]
		bias.Of(m.Params)[1] = float32(math.NaN())
		wants(t, s.Commit(t.Context(), 7), "backend gpu-ref: commit of step 7: NaN in the parameters of bert.pooler.dense.bias, element 1: the optimizer left it there, or this commit did")
		bias.Of(m.Params)[1] = before
		if err := s.Commit(t.Context(), 7); err != nil {
			t.Error(err)
		}
	}
}

// TestNoModel: a backend that has no model of its machine says so in a way that the host can decide by.
func TestNoModel(t *testing.T) {
	e, ok := start(t, spec(t, plugin.Backend, "idle", host.Stream)).Backend().(backend.Estimator)
	if !ok {
		t.Fatal("the client is no Estimator")
	}
	_, err := e.Estimate(t.Context(), program(), backend.Machine{})
	wants(t, err, "backend idle: estimate", "no model of its machine")
	if !errors.Is(err, backend.ErrUnsupported) {
		t.Errorf("%v is not ErrUnsupported", err)
	}
}

// TestLiar: a plugin in another language may say anything.
func TestLiar(t *testing.T) {
	p := start(t, spec(t, plugin.Optimizer, "liar", host.Stream))
	u, _ := updates(t, p)
	_, err := u.Step(t.Context(), optimizer.Step{Step: 3, LR: 0.1})
	wants(t, err, "optimizer liar: step 3: it sent 8 elements of section 0, want 16")
	_, err = p.Optimizer().Slots(t.Context(), map[string]string{"twice": "1"})
	wants(t, err, "optimizer liar: slots", `"m" "m"`)
}

func TestBadStarts(t *testing.T) {
	for role, test := range map[string]struct {
		kind  plugin.Kind
		texts []string
		died  bool
	}{
		"version-7": {plugin.Optimizer, []string{"it speaks protocol version 7, this harness speaks version 1"}, false},
		"early":     {plugin.Optimizer, []string{"it ended before it said hello (exit status 4)", "libipu.so: cannot open"}, true},
		"chatty":    {plugin.Optimizer, []string{`it printed "Hello, world!" instead of the handshake`}, true},
		"mute":      {plugin.Optimizer, []string{"no answer within 1s", "looking for devices"}, true},
		"sgd":       {plugin.Backend, []string{"it is a plugin, but no backend"}, false},
	} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			s := spec(t, test.kind, role, host.Memory)
			if role == "mute" {
				s.Timeouts.Start = time.Second
			}
			p, err := host.Launch(t.Context(), s)
			if err == nil {
				t.Fatal(errors.Join(errors.New("it started"), p.Close()))
			}
			wants(t, err, append(test.texts, string(test.kind)+" "+role+": start: ")...)
			if errors.Is(err, host.ErrDied) != test.died {
				t.Errorf("error is ErrDied: %v, want %v", !test.died, test.died)
			}
		})
	}
}

func TestStartRefuses(t *testing.T) {
	good := spec(t, plugin.Optimizer, "sgd", host.Memory)
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, test := range map[string]struct {
		ctx    context.Context
		change func(*host.Spec)
		texts  []string
	}{
		"no such file":   {t.Context(), func(s *host.Spec) { s.Path = plain + "er" }, []string{"no such file"}},
		"not executable": {t.Context(), func(s *host.Spec) { s.Path = plain }, []string{"permission denied"}},
		"no kind":        {t.Context(), func(s *host.Spec) { s.Kind = "model" }, []string{`kind is "model"`}},
		"no transport":   {t.Context(), func(s *host.Spec) { s.Transport = "pigeon" }, []string{`transport is "pigeon"`}},
		"cancelled":      {cancelled, func(*host.Spec) {}, []string{"context canceled"}},
	} {
		s := good
		test.change(&s)
		p, err := host.Launch(test.ctx, s)
		if err == nil {
			t.Errorf("%s: it started", name)
			_ = p.Close()
			continue
		}
		wants(t, err, test.texts...)
	}
	start(t, good)
}

// TestStderr: what a plugin prints comes through, before and after its start.
func TestStderr(t *testing.T) {
	var printed buffer
	s := spec(t, plugin.Optimizer, "panic", host.Memory)
	s.Stderr = &printed
	u, _ := updates(t, start(t, s))
	_, err := u.Step(t.Context(), optimizer.Step{Step: 1, LR: 0.1})
	wants(t, err, "panic: slots: 0")
	wants(t, errors.New(printed.String()), "panic: slots: 0", "failure_test.go:", "printed to standard output\n")
}

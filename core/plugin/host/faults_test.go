package host_test

import (
	goplugin "github.com/hashicorp/go-plugin"

	"context"
	"fmt"
	"iter"
	"math"
	"os"
	"time"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/plugin"
	"harness.invalid/core/plugin/host"
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
	"hang-later": badOptimizer(hangsAtFifth()),
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

	"nan-gradient":   badBackend(func(m backend.Memory, r *backend.StepResult) { m.Grads[1] = float32(math.Inf(1)) }, nil),
	"nan-loss":       badBackend(func(_ backend.Memory, r *backend.StepResult) { r.Losses.MaskedLM.Sum = math.NaN() }, nil),
	"negative-count": badBackend(func(_ backend.Memory, r *backend.StepResult) { r.Overflows = -1 }, nil),
	"nan-seconds": badBackend(func(_ backend.Memory, r *backend.StepResult) {
		r.Phases = []backend.Phase{{Name: "forward", Seconds: math.NaN()}}
	}, nil),
	"wrong-shape": badBackend(nil, func(o backend.Outputs) {
		o["pooler_output"] = backend.Output{Shape: tensor.Shape{2, 3}, Values: make([]float32, 6)}
	}),
	"hang-evaluating": badBackend(nil, hangsAtFifthBatch()),
	"missing-output":  badBackend(nil, func(o backend.Outputs) { delete(o, "pooler_output") }),

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

// badOptimizer serves SGD with another step.
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

// badBackend serves gpu-ref with changed results.
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

func (s faultySession) Evaluate(
	ctx context.Context, e backend.Evaluation, batches iter.Seq2[*bert.Batch, error], yield func(backend.Outputs) error,
) (bert.Losses, error) {
	return s.Session.Evaluate(ctx, e, batches, func(o backend.Outputs) error {
		if s.f.outputs != nil {
			s.f.outputs(o)
		}
		return yield(o)
	})
}

// hangsAtFifthBatch computes the outputs of four batches.
func hangsAtFifthBatch() func(backend.Outputs) {
	n := 0
	return func(backend.Outputs) {
		if n++; n == 5 {
			select {}
		}
	}
}

// hangsAtFifth is an update that comes back four times.
func hangsAtFifth() func(context.Context, optimizer.Memory) error {
	n := 0
	return func(context.Context, optimizer.Memory) error {
		if n++; n == 5 {
			select {}
		}
		return nil
	}
}

package host_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"harness.invalid/core/backend"
	"harness.invalid/core/kernels"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/plugin"
	"harness.invalid/core/plugin/host"
	gpuref "harness.invalid/plugins/gpu-ref"
	"harness.invalid/plugins/ipu"
	"harness.invalid/plugins/optimizers/adamw"
	"harness.invalid/plugins/optimizers/lamb"
	"harness.invalid/plugins/optimizers/sgd"
)

// roleVariable makes the test binary play a plugin or a host, when a test starts it.
const roleVariable = "HARNESS_TEST_ROLE"

// roles are what the test binary can play, besides badRoles, badTraces and hostRoles.
var roles = map[string]func(){
	"adamw":   func() { plugin.ServeOptimizer(adamw.New()) },
	"lamb":    func() { plugin.ServeOptimizer(lamb.New()) },
	"sgd":     func() { plugin.ServeOptimizer(sgd.New()) },
	"gpu-ref": func() { plugin.ServeBackend(gpuref.New()) },
	"ipu":     func() { plugin.ServeBackend(ipu.New()) },
	"idle":    func() { plugin.ServeBackend(idle{}) },
}

func TestMain(m *testing.M) {
	if role, ok := os.LookupEnv(roleVariable); ok {
		for _, more := range []map[string]func(){roles, badRoles, badTraces, hostRoles} {
			if play, ok := more[role]; ok {
				play()
				return
			}
		}
		fmt.Fprintf(os.Stderr, "no role is named %q\n", role)
		os.Exit(2)
	}
	// core/kernels keeps its workers for good: start them before goroutines are counted.
	kernels.Parallel(runtime.GOMAXPROCS(0), func(int, int) {})
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent())
}

// spec is a plugin played by the test binary.
func spec(t testing.TB, kind plugin.Kind, role string, transport host.Transport) host.Spec {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return host.Spec{
		Kind: kind, Name: role, Path: self, Env: []string{roleVariable + "=" + role}, Threads: 1, Transport: transport,
		Timeouts: host.Timeouts{Start: 20 * time.Second, Call: 20 * time.Second, Open: 20 * time.Second, Step: 20 * time.Second},
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

var transports = []host.Transport{host.Memory, host.Stream}

// wants fails a test unless the error contains all the texts.
func wants(t testing.TB, err error, texts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want one with %q", texts)
		return
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error has no %q:\n%v", text, err)
		}
	}
}

// builtin are the same rules and devices without a process around them.
var builtin = struct {
	optimizers map[string]optimizer.Optimizer
	backends   map[string]backend.Backend
}{
	map[string]optimizer.Optimizer{"adamw": adamw.New(), "lamb": lamb.New(), "sgd": sgd.New()},
	map[string]backend.Backend{"gpu-ref": gpuref.New(), "ipu": ipu.New()},
}

func sameBits(t testing.TB, what string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d elements, want %d", what, len(got), len(want))
		return
	}
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Errorf("%s: element %d is %g, want %g with equal bits", what, i, got[i], want[i])
			return
		}
	}
}

// buffer is a writer that may be read while it is written to.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

var _ io.Writer = (*buffer)(nil)

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

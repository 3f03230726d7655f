package backendtest_test

import (
	"context"
	"os"
	"runtime"
	"testing"

	"harness.invalid/core/backend"
	"harness.invalid/core/backend/backendtest"
	"harness.invalid/core/internal/reference"
	gpuref "harness.invalid/plugins/gpu-ref"
	"harness.invalid/plugins/ipu"
)

// builtin are the backends of this project.
var builtin = map[string]backend.Backend{"gpu-ref": gpuref.New(), "ipu": ipu.New()}

// TestMain uses one thread: steps of small models are too little work for two, and other packages are tested at the
// same time. TestBits in harness tests that threads do not change bits.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	os.Exit(m.Run())
}

func TestConformance(t *testing.T) {
	for name, b := range builtin {
		t.Run(name, func(t *testing.T) {
			for _, r := range backendtest.Conformance(t.Context(), b) {
				if r.Err != nil {
					t.Errorf("%s: %v", r.Name, r.Err)
				}
			}
		})
	}
}

// TestTolerances compares every precision with float64 results of an independent program, and logs the largest errors.
func TestTolerances(t *testing.T) {
	for name, b := range builtin {
		t.Run(name, func(t *testing.T) {
			rows, err := backendtest.Oracle(context.Background(), b, reference.PathOrExcerpt(t, "golden", "bert"))
			if err != nil {
				t.Fatal(err)
			}
			tokens, err := backendtest.Oracle(context.Background(), b, "testdata/token_classification.safetensors")
			if err != nil {
				t.Fatal(err)
			}
			rows = append(rows, tokens...)
			if len(rows) < 150 {
				t.Errorf("only %d quantities were compared", len(rows))
			}
			for _, r := range rows {
				if !r.Pass {
					t.Errorf("%s of %s in %s: relative error %.2g, want at most %g", r.Quantity, r.Case, r.Precision, r.RelError, r.Limit)
				}
			}
			for _, r := range backendtest.Worst(rows) {
				t.Logf("%s: largest error %.2g of %g: %s of %s", r.Precision, r.RelError, r.Limit, r.Quantity, r.Case)
			}
		})
	}
}

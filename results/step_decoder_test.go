package results

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// TestStepDecoder: whatever the line, the decoder gives what encoding/json does, errors included.
func TestStepDecoder(t *testing.T) {
	written, err := json.Marshal(Step{Phase: "p", Step: 3, TotalStep: 10, LearningRate: 1e-3, LossScale: Number(math.Inf(1)), Finite: true,
		GradientNorm: -0.25, Overflows: 2, Sequences: 8, Metrics: Metrics{"loss": 1e-300, "other": math.NaN()},
		MeasuredSeconds: map[string]float64{"total": 0.1}})
	if err != nil {
		t.Fatal(err)
	}
	equal := cmp.Comparer(func(a, b Number) bool { return a == b || a != a && b != b })
	var d stepDecoder
	for _, line := range []string{
		string(written), `{}`, `{"phase":"a\u0062","step":1}`, `{"phase":"ä"}`, `{"step": 1}`, `{"step":01}`, `{"step":1.5}`, `{"step":-1}`,
		`{"learning_rate":.5}`, `{"learning_rate":1e999}`, `{"learning_rate":"NaN"}`, `{"modelled_seconds":1.5E+3,"finite":false}`,
		`{"modelled_seconds":"NaN"}`, `{"metrics":null}`, `{"metrics":{"a":1,"a":2},"unknown":[1]}`, `{"step":1}}`, `{"step":1`,
		`{"step":1,}`, ``, `{"measured_seconds":{"total":1,"data":00}}`,
	} {
		var want Step
		errWant := json.Unmarshal([]byte(line), &want)
		got, err := d.decode([]byte(line))
		if (err != nil) != (errWant != nil) {
			t.Errorf("%s: error %v, want %v", line, err, errWant)
		}
		if diff := cmp.Diff(&want, got, cmpopts.EquateEmpty(), cmpopts.EquateNaNs(), equal); err == nil && diff != "" {
			t.Errorf("%s: %s", line, diff)
		}
	}
}

package lockstep_test

import (
	"strings"
	"testing"

	"harness.invalid/core/backend"
	"harness.invalid/harness/lockstep"
)

// TestOperands: the reason is the format of an operand where its error explains the difference. FP32 against the same
// with one operand in a narrow format.
func TestOperands(t *testing.T) {
	narrow := func(policy string) planted {
		return planted{program: func(p *backend.Program) {
			p.Options = map[string]string{backend.PolicyOption: policy, backend.InspectOption: "1"}
		}}
	}
	const first = " of bert.encoder.layer.0.attention.self.query in planted "
	for name, test := range map[string]struct {
		policy string
		kind   lockstep.Kind
		reason lockstep.Reason
		text   string
	}{
		"few digits": {"products: {forward: {weight: e4m3-tensor}}", lockstep.Activation, lockstep.Format,
			"a narrow format. Of forward.weight" + first + "(e4m3-tensor), 0% of its values saturated"},
		// There is no history, so the scale is 1, and gradients are below the least value of E4M3.
		"a scale of 1": {"products: {parameter_gradient: {gradient: e4m3-tensor}, delayed: {history: 4}}", lockstep.Gradient, lockstep.ScaleLag,
			"a scale that lags. That of parameter_gradient.gradient of bert.encoder.layer.1."},
		// Inputs come from a layer norm, so many are above 0.5.
		"beyond the largest": {"formats: {low: {element: {exponent: 2, mantissa: 3, bias: 4, specials: none, overflow: saturate}}}\n" +
			"products: {forward: {input: low}}", lockstep.Activation, lockstep.Saturation, "saturation. Of forward.input" + first + "(low), "},
		// Weights have a standard deviation of 0.02, and the least value is 0.5.
		"below the least": {"products: {forward: {weight: e2m1}}", lockstep.Activation, lockstep.Flush,
			"values below the format. Of forward.weight" + first + "(e2m1), 0% of its values saturated, 100% became zero"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := follow(t, narrow(test.policy), [2]string{"fp32", "fp32"}, 1, true)
			v := r.Verdict
			if !v.Parted || v.First.Kind != test.kind || v.Reason != test.reason || v.Side != "planted" {
				t.Fatalf("they diverge (%v) at %+v for %q on side %q, want a %s for %s", v.Parted, v.First, v.Reason, v.Side, test.kind, test.reason)
			}
			if !strings.Contains(v.Text[1], test.text) {
				t.Errorf("%q, want %q in it", v.Text[1], test.text)
			}
			if s := &r.Steps[0]; s.Quantised[0] != nil || s.Quantised[1] == nil {
				t.Errorf("%d and %d records of operands, want some of the second side alone", len(s.Quantised[0]), len(s.Quantised[1]))
			}
		})
	}
}

// TestOperandsElsewhere: errors of operands are no reason for a difference that they cannot make: another epsilon in layer norms,
// with weights in E4M3.
func TestOperandsElsewhere(t *testing.T) {
	both := planted{program: func(p *backend.Program) {
		p.Model.LayerNormEps = 1e-1
		p.Options = map[string]string{backend.PolicyOption: "products: {forward: {weight: e4m3-tensor}}", backend.InspectOption: "1"}
	}}
	v := follow(t, both, [2]string{"fp32", "fp32"}, 1, true, "model.initializer_range=0.2").Verdict
	if v.Reason != lockstep.Operator || v.First.Tensor != "bert.embeddings" {
		t.Errorf("%s at %+v, want the operator itself at the embeddings", v.Reason, v.First)
	}
}

package emulator_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"harness.invalid/core/bert"
	"harness.invalid/core/emulator"
)

// TestGradientsOfAFittedModel says why a gradient in FP8 can be off by much of its own size. On a model with its first
// weights it is not. On a fitted one the gradient of the logits, softmax less label, is small, and an error of a logit
// changes it by that share of itself: the forward pass makes most of the error, and scales of tensors are like scales of
// blocks.
func TestGradientsOfAFittedModel(t *testing.T) {
	c := small
	c.HiddenSize, c.NumAttentionHeads, c.IntermediateSize, c.InitializerRange = 64, 2, 128, 0.02
	c.HiddenDropoutProb, c.AttentionProbsDropoutProb = 0, 0
	b := newBench(t, c, bert.Pretraining, 4)
	gradient := func(text string) []float32 {
		d := emulator.New(emulator.Policy{})
		if text != "" {
			d = emulator.New(parsed(t, text))
		}
		b.run(t, d, b.batch)
		return slices.Clone(b.grads)
	}
	current, block := policyText(t, "fp8-current"), policyText(t, "fp8-block")
	bf16 := without(current, "products:", "  forward:", "  input_gradient:", "  parameter_gradient:")
	policies := map[string]string{
		"current": current, "block": block, "bf16": bf16, "forward": without(current, "  input_gradient:", "  parameter_gradient:"),
		"backward": without(current, "  forward:"),
	}
	off := func() map[string]float64 {
		errors, want := map[string]float64{}, gradient("")
		for name, text := range policies {
			errors[name] = relative(gradient(text), want)
		}
		return errors
	}
	start := off()
	m, v := make([]float32, len(b.params)), make([]float32, len(b.params))
	for range 60 { // of Adam, without its corrections
		for i, g := range gradient("") {
			m[i], v[i] = 0.9*m[i]+0.1*g, 0.99*v[i]+0.01*g*g
			b.params[i] -= 2e-3 * m[i] / (float32(math.Sqrt(float64(v[i]))) + 1e-6)
		}
	}
	fitted := off()
	switch {
	case !(start["current"] < 0.01):
		t.Errorf("with the first weights the gradient is off by %v, want below 0.01 as in BF16", start)
	case !(fitted["current"] > 5*start["current"]):
		t.Errorf("fitted it is off by %v, at the start by %v, want much more: the model is not fitted", fitted, start)
	case !(fitted["backward"] < 1.2*fitted["bf16"]) || !(math.Abs(fitted["forward"]/fitted["current"]-1) < 0.2):
		t.Errorf("fitted it is off by %v, want the forward pass to make it, and the backward pass no more than BF16", fitted)
	case !(fitted["current"] < 3*fitted["block"]):
		t.Errorf("fitted it is off by %v, want scales of tensors to be within three times scales of blocks", fitted)
	}
}

// without cuts the lines that begin so.
func without(text string, beginnings ...string) string {
	var kept []string
	for line := range strings.Lines(text) {
		if !slices.ContainsFunc(beginnings, func(b string) bool { return strings.HasPrefix(line, b) }) {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

func policyText(t *testing.T, name string) string {
	t.Helper()
	text, err := emulator.PolicyText(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

package train

import (
	"maps"
	"strings"
	"testing"

	"harness.invalid/plugins/optimizers/lamb"
	"harness.invalid/plugins/optimizers/sgd"
)

func TestWithMoment(t *testing.T) {
	half := map[string]string{firstMoment: "fp16", "loss_scale": "64"}
	given := map[string]string{"beta1": "0.8"}
	got, err := withMoment(t.Context(), lamb.New(), "lamb", given, half)
	if err != nil || !maps.Equal(got, map[string]string{"beta1": "0.8", firstMoment: "fp16"}) || len(given) != 1 {
		t.Errorf("lamb gets %v, %v; the recipe's options are %v", got, err, given)
	}
	got, err = withMoment(t.Context(), lamb.New(), "lamb", map[string]string{firstMoment: "fp32"}, half)
	if err != nil || got[firstMoment] != "fp32" {
		t.Errorf("lamb gets %v, %v, want what the recipe says of it", got, err)
	}
	if got, err = withMoment(t.Context(), lamb.New(), "lamb", nil, nil); err != nil || len(got) != 0 {
		t.Errorf("lamb gets %v, %v, want nothing", got, err)
	}
	_, err = withMoment(t.Context(), sgd.New(), "sgd", nil, half)
	if err == nil || !strings.Contains(err.Error(), "optimizer sgd has no such option") {
		t.Errorf("sgd: %v, want an error", err)
	}
	if _, err := withMoment(t.Context(), sgd.New(), "sgd", nil, map[string]string{firstMoment: "fp32"}); err != nil {
		t.Errorf("sgd in FP32: %v", err)
	}
}

// Command harness-optimizer-signum is a third party's plugin: Signum, the sign of the momentum (Bernstein et al. 2018, arXiv:1802.04434).
//
//	go mod tidy && go build -o ~/plugins/harness-optimizer-signum .
//	HARNESS_PLUGIN_PATH=~/plugins harness compare --backends gpu-ref --optimizers adamw,signum
package main

import (
	"cmp"
	"context"
	"errors"

	"harness.invalid/core/optimizer"
	"harness.invalid/core/option"
	"harness.invalid/core/plugin"
)

func main() { plugin.ServeOptimizer(signum{}) }

type signum struct{}

var options = []option.Option{{Name: "momentum", Default: "0.9", Doc: "share of earlier gradients in the direction"}}

func (signum) Describe(context.Context) (optimizer.Info, error) {
	return optimizer.Info{Name: "signum", Version: "1", Doc: "sign of the momentum (Bernstein et al. 2018, arXiv:1802.04434)", Options: options}, nil
}

func (signum) Slots(_ context.Context, given map[string]string) ([]string, error) {
	_, err := momentum(given)
	return []string{"m"}, err
}

func (signum) Open(_ context.Context, given map[string]string, m optimizer.Memory) (optimizer.Session, error) {
	beta, err := momentum(given)
	return &session{m, beta}, errors.Join(err, m.Check(1))
}

func momentum(given map[string]string) (float32, error) {
	v, err := option.Read(options, given)
	if err != nil {
		return 0, err
	}
	return float32(v.Float("momentum", 0, 1)), v.Err()
}

type session struct {
	optimizer.Memory
	beta float32
}

func (s *session) Step(_ context.Context, step optimizer.Step) (optimizer.StepResult, error) {
	norm, lr, m := optimizer.Norm(optimizer.Blocks(s.Layout), s.Grads), float32(step.LR), s.Slots[0]
	err := step.Check()
	for i := 0; i < len(m) && err == nil; i++ {
		m[i] = float32(s.beta*m[i]) + float32((1-s.beta)*s.Grads[i])
		s.Params[i] -= float32(lr * float32(cmp.Compare(m[i], 0)))
	}
	return optimizer.StepResult{GradientNorm: norm}, err
}

func (s *session) Close() error { return nil }

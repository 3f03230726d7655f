package optimizertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"harness.invalid/core/agreement"
	"harness.invalid/core/checkpoint/safetensors"
	"harness.invalid/core/optimizer"
)

// OracleLimit is the maximum relative error of parameters after a step, against float64. A float32 parameter is off by 6e-8
// in each step, and a root of the second moment near zero magnifies the error of an update by a factor below a hundred.
const OracleLimit = 1e-5

// Oracle runs every rule of a file of trajectories that belongs to the optimizer called name, and compares the parameters
// after every step. It returns a row for each rule, step and tensor. A file without a rule for name is an error.
//
// The file is in the safetensors format. w0.TENSOR are the initial parameters, grad.STEP.TENSOR the gradients and lr the
// learning rates, with steps counted from 0. RULE.STEP.TENSOR are the parameters after the step. A rule that probes has
// RULE.STEP.probe.TENSOR, the parameters for the second gradient, and RULE.STEP.second.TENSOR, that gradient. A rule that
// averages has RULE.STEP.average.TENSOR, the parameters of the model after the step. The metadata has "rules", a JSON object
// with the settings of each rule, and "betas". A rule of an optimizer that is not built in names it and its options:
// {"plugin": "lion", "options": {"beta1": "0.9"}}.
func Oracle(ctx context.Context, o optimizer.Optimizer, name, file string) (rows []agreement.Row, err error) {
	f, err := safetensors.Open(file)
	if err != nil {
		return nil, fmt.Errorf("optimizertest: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	t, err := readTrajectories(f)
	if err != nil {
		return nil, fmt.Errorf("optimizertest: %s: %w", file, err)
	}
	for _, rule := range slices.Sorted(maps.Keys(t.rules)) {
		plugin, options, err := t.rules[rule].settings(rule, f.Metadata()["betas"])
		if err != nil {
			return nil, fmt.Errorf("optimizertest: %s: rule %s: %w", file, rule, err)
		}
		if plugin != name {
			continue
		}
		r, err := t.run(ctx, o, f, rule, options)
		if err != nil {
			return nil, fmt.Errorf("optimizertest: %s: rule %s: %w", file, rule, err)
		}
		rows = append(rows, r...)
	}
	if len(rows) == 0 {
		known := strings.Join(slices.Sorted(maps.Keys(t.rules)), ", ")
		return nil, fmt.Errorf("optimizertest: %s has no rule for %s (rules: %s)", file, name, known)
	}
	return rows, nil
}

// rule holds the settings of a trajectory as the file spells them.
type rule struct {
	Plugin  string            `json:"plugin"`
	Options map[string]string `json:"options"`

	Bias     *bool    `json:"bias"`
	Eps      *float64 `json:"eps"`
	Decay    *float64 `json:"wd"`
	Clip     *float64 `json:"clip"` // null or absent: no clipping
	Momentum *float64 `json:"momentum"`
	Adapt    string   `json:"adapt"` // "all" or "wd": which tensors have a trust ratio
}

// plugins are the optimizers of rules that name none.
var plugins = map[string]string{
	"adamw": "adamw", "bert_adam": "adamw",
	"lamb": "lamb", "nvlamb": "lamb", "lamb_no_bias": "lamb",
	"sgd": "sgd", "sgd_momentum": "sgd",
}

// settings translates a rule into an optimizer's name and options.
func (r rule) settings(name, betas string) (plugin string, options map[string]string, err error) {
	if r.Plugin != "" {
		return r.Plugin, r.Options, nil
	}
	plugin, ok := plugins[name]
	if !ok {
		return "", nil, errors.New(`no built-in optimizer computes it: name one by "plugin"`)
	}
	options = map[string]string{}
	number := func(option string, v *float64) {
		if v != nil {
			options[option] = strconv.FormatFloat(*v, 'g', -1, 64)
		}
	}
	number("eps", r.Eps)
	number("weight_decay", r.Decay)
	number("momentum", r.Momentum)
	options["max_grad_norm"] = "0"
	number("max_grad_norm", r.Clip)
	if r.Bias != nil {
		options["bias_correction"] = strconv.FormatBool(*r.Bias)
	}
	if plugin != "sgd" {
		beta1, beta2, ok := strings.Cut(betas, ",")
		if !ok {
			return "", nil, fmt.Errorf("metadata betas is %q, want two numbers", betas)
		}
		options["beta1"], options["beta2"] = beta1, beta2
	}
	if plugin == "lamb" {
		options["use_nvlamb"] = strconv.FormatBool(r.Adapt == "all")
	}
	return plugin, options, nil
}

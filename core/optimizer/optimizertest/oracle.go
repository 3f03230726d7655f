package optimizertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"harness.invalid/core/agreement"
	"harness.invalid/core/bert"
	"harness.invalid/core/checkpoint/safetensors"
	"harness.invalid/core/checkpoint/weights"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/tensor"
)

// OracleLimit is the greatest relative error of parameters after a step against float64: a float32 parameter is off by 6e-8 in each step, and
// a root of the second moment near zero magnifies the error of an update by a factor that stays below a hundred.
const OracleLimit = 1e-5

// Oracle runs every rule of a file of trajectories that is computed by the optimizer called name, and compares the parameters after every
// step: a row for each rule, step and tensor. A file without a rule for name is an error.
//
// The file is in the safetensors format: w0.TENSOR are the first parameters, grad.STEP.TENSOR the gradients and lr the learning rates of steps
// counted from 0, RULE.STEP.TENSOR the parameters after the step. A rule that probes has RULE.STEP.probe.TENSOR, the parameters at which it wants the second
// gradient, and RULE.STEP.second.TENSOR, that gradient; one that averages RULE.STEP.average.TENSOR, the parameters of the model after the step. The metadata has "rules", a JSON object with the settings of each rule, and
// "betas". A rule that no built-in optimizer computes names its optimizer and options itself: {"plugin": "lion", "options": {"beta1": "0.9"}}.
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
		return nil, fmt.Errorf("optimizertest: %s has no rule for %s (rules: %s)", file, name, strings.Join(slices.Sorted(maps.Keys(t.rules)), ", "))
	}
	return rows, nil
}

// rule is the settings of a trajectory as the file spells them.
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

// plugins are the optimizers of the rules that name none.
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

// trajectories are what all rules of a file share.
type trajectories struct {
	rules  map[string]rule
	rates  []float64
	layout *tensor.Layout
}

func readTrajectories(f *weights.File) (t trajectories, err error) {
	if err := json.Unmarshal([]byte(f.Metadata()["rules"]), &t.rules); err != nil {
		return t, fmt.Errorf("metadata rules: %w", err)
	}
	if t.rates, err = f.Float64s("lr"); err != nil {
		return t, err
	}
	var tensors []tensor.Tensor
	for _, name := range f.Names() {
		if short, ok := strings.CutPrefix(name, "w0."); ok {
			of, _ := f.Tensor(name)
			tensors = append(tensors, tensor.Tensor{Name: short, Shape: of.Shape, Kind: bert.KindOf(short)})
		}
	}
	if len(tensors) == 0 {
		return t, errors.New("no tensor w0.*: not a file of optimizer trajectories")
	}
	t.layout, err = tensor.NewLayout(tensors...)
	return t, err
}

func (t trajectories) run(ctx context.Context, o optimizer.Optimizer, f *weights.File, name string, options map[string]string) (rows []agreement.Row, err error) {
	info, err := o.Describe(ctx)
	if err != nil {
		return nil, err
	}
	slots, err := o.Slots(ctx, options)
	if err != nil {
		return nil, err
	}
	m := optimizer.Memory{Layout: t.layout, Params: make([]float32, t.layout.Len()), Grads: make([]float32, t.layout.Len())}
	for range slots {
		m.Slots = append(m.Slots, make([]float32, t.layout.Len()))
	}
	if err := t.load(f, "w0.", m.Params); err != nil {
		return nil, err
	}
	session, err := o.Open(ctx, options, m)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	s := &suite{ctx: ctx, o: o, info: info}
	for i, lr := range t.rates {
		at := strconv.Itoa(i) + "."
		compare := func(what string) error {
			for _, of := range t.layout.Tensors() {
				want, err := f.Float64s(name + "." + at + what + of.Name)
				if err != nil {
					return err
				}
				row, err := agreement.Compare(name, "optimizer", "fp32", "step."+at+what+of.Name, of.Of(m.Params), want, OracleLimit)
				if err != nil {
					return err
				}
				rows = append(rows, row)
			}
			return nil
		}
		// elsewhere compares the parameters that move leaves, and puts those before back.
		elsewhere := func(what string, move func() error) error {
			before := slices.Clone(m.Params)
			defer copy(m.Params, before)
			if err := move(); err != nil {
				return err
			}
			return compare(what)
		}
		step := optimizer.Step{Step: i + 1, LR: lr}
		if err := t.load(f, "grad."+at, m.Grads); err != nil {
			return nil, err
		}
		if info.Probes {
			if err := elsewhere("probe.", func() error { return s.probe(session, step) }); err != nil {
				return nil, err
			}
			if err := t.load(f, name+"."+at+"second.", m.Grads); err != nil {
				return nil, err
			}
		}
		if _, err := session.Step(ctx, step); err != nil {
			return nil, err
		}
		if err := compare(""); err != nil {
			return nil, err
		}
		if info.Averages {
			if err := elsewhere("average.", func() error { return s.average(session, i+1) }); err != nil {
				return nil, err
			}
		}
	}
	return rows, nil
}

// load reads the tensors with a prefix into a section.
func (t trajectories) load(f *weights.File, prefix string, section []float32) error {
	for _, of := range t.layout.Tensors() {
		if err := f.ReadFloat32s(prefix+of.Name, of.Of(section)); err != nil {
			return err
		}
	}
	return nil
}

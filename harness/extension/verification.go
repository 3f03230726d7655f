package extension

import (
	"context"
	"errors"

	"harness.invalid/core/agreement"
	"harness.invalid/core/backend/backendtest"
	"harness.invalid/core/optimizer/optimizertest"
	"harness.invalid/core/plugin"
	"harness.invalid/harness/processes"
)

// Verification is how a plugin keeps its contract, and how it agrees with another program.
type Verification struct {
	Cases []agreement.Row `json:"cases"` // quantities beside the other program's
	Rules []Rule          `json:"rules"` // of the contract
	Pass  bool            `json:"pass"`  // all of them do
}

// Rule is a rule of the contract, and what broke it.
type Rule struct {
	Rule  string `json:"rule"`
	Error string `json:"error,omitempty"`
	Pass  bool   `json:"pass"`
}

// Check says what a plugin is verified against besides its contract.
type Check struct {
	Oracle     string   // results of another program: a folder of cases for a backend, a file for an optimizer; "": none
	Precisions []string // of a backend; none: all
}

// Verify starts a plugin and runs the conformance suite of its kind over the wire, then holds what it computes
// against the oracle of the check.
func Verify(ctx context.Context, kind plugin.Kind, name string, c Check, o processes.Options) (v *Verification, err error) {
	p, err := processes.Launch(ctx, kind, name, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	v = &Verification{Cases: []agreement.Row{}, Pass: true}
	switch kind {
	case plugin.Backend:
		for _, r := range backendtest.Conformance(ctx, p.Backend()) {
			v.rule(r.Name, r.Err)
		}
		if c.Oracle != "" {
			v.Cases, err = backendtest.Oracle(ctx, p.Backend(), c.Oracle, c.Precisions...)
		}
	case plugin.Optimizer:
		for _, r := range optimizertest.Conformance(ctx, p.Optimizer()) {
			v.rule(r.Name, r.Err)
		}
		if c.Oracle != "" {
			v.Cases, err = optimizertest.Oracle(ctx, p.Optimizer(), name, c.Oracle)
		}
	}
	if err != nil {
		return nil, err
	}
	if c.Oracle != "" && !agreement.Passed(v.Cases) {
		v.Pass = false
	}
	return v, nil
}

func (v *Verification) rule(name string, err error) {
	r := Rule{Rule: name, Pass: err == nil}
	if err != nil {
		r.Error = err.Error()
		v.Pass = false
	}
	v.Rules = append(v.Rules, r)
}

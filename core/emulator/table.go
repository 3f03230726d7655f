package emulator

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"harness.invalid/core/bounded"
	"harness.invalid/core/format"
	"harness.invalid/core/numerics"
	"harness.invalid/core/spelling"
)

// table is a policy as YAML: one key for each store, with the name of a format, and "stochastic" behind it where it is
// rounded so. What is absent is FP32.
type table struct {
	Doc string `yaml:"doc"`
	// Formats are descriptions of formats of one's own, by the names that the policy uses.
	Formats map[string]any `yaml:"formats,omitempty"`

	Inputs   numerics.Format `yaml:"inputs"`
	Partials Partials        `yaml:"partials,omitempty"`
	Products products        `yaml:"products,omitempty"`

	Embed         Row   `yaml:"embeddings"`
	Linear        Row   `yaml:"linear"`
	Pointwise     Row   `yaml:"pointwise"`
	Residual      Row   `yaml:"residual"`
	Norm          Row   `yaml:"norm"`
	Statistics    Store `yaml:"statistics"`
	Scores        Row   `yaml:"scores"`
	Masked        Store `yaml:"masked"`
	Exponential   Store `yaml:"exponential"`
	Reciprocal    Store `yaml:"reciprocal"`
	Probabilities Row   `yaml:"probabilities"`
	LossGrad      Store `yaml:"loss_gradient"`
	Accumulate    Store `yaml:"accumulate"`
	RunningMean   bool  `yaml:"running_mean"`
	Shares        bool  `yaml:"shares"`
	Reduce        Store `yaml:"reduce"`
	Divide        bool  `yaml:"divide"`
	Parameters    Store `yaml:"parameters"`
	Working       Store `yaml:"working"`

	Overflow string `yaml:"overflow"` // of FP16: infinity (the default), saturate or nan
}

// products are the formats of the operands of the linear operators' products, as text.
type products struct {
	Forward struct {
		Input  string `yaml:"input"`
		Weight string `yaml:"weight"`
	} `yaml:"forward,omitempty"`
	InputGradient struct {
		Gradient string `yaml:"gradient"`
		Weight   string `yaml:"weight"`
	} `yaml:"input_gradient,omitempty"`
	ParameterGradient struct {
		Gradient string `yaml:"gradient"`
		Input    string `yaml:"input"`
		Hadamard bool   `yaml:"hadamard"`
	} `yaml:"parameter_gradient,omitempty"`
	Delayed Delayed `yaml:"delayed,omitempty"`
	Chunk   int     `yaml:"chunk"`
	Wide    Wide    `yaml:"wide,omitempty"`
}

// mostTable is the size of a policy that is read.
const mostTable = 64 * bounded.KiB

// ParsePolicy reads a policy from YAML; errors call it name. Keys that are unknown are errors. docs/formats.md has the
// keys.
func ParsePolicy(name string, text []byte) (Policy, error) {
	p, err := parsePolicy(text)
	if err != nil {
		return Policy{}, fmt.Errorf("policy %s: %w", name, err)
	}
	return p, nil
}

func parsePolicy(text []byte) (Policy, error) {
	if len(text) > mostTable {
		return Policy{}, fmt.Errorf("it has %d bytes, want at most %d: %w", len(text), mostTable, bounded.ErrTooLarge)
	}
	if err := bounded.YAML(text); err != nil {
		return Policy{}, err
	}
	var t table
	d := yaml.NewDecoder(bytes.NewReader(text), yaml.Strict())
	if err := d.Decode(&t); err != nil {
		if errors.Is(err, io.EOF) {
			return Policy{}, errors.New("it is empty, want a table of formats")
		}
		at := errors.New(strings.TrimSpace(yaml.FormatError(err, false, true)))
		var unknown *yaml.UnknownFieldError
		if errors.As(err, &unknown) {
			known, key := keysOf(reflect.TypeFor[table]()), unknown.GetToken().Value
			return Policy{}, fmt.Errorf("%q is no key of a policy%s (known: %s)\n%w", key, spelling.Hint(key, known),
				strings.Join(known, ", "), at)
		}
		return Policy{}, at
	}
	if err := d.Decode(new(table)); !errors.Is(err, io.EOF) {
		return Policy{}, errors.New("a second document follows the first, want one")
	}
	return t.policy()
}

// keysOf are the keys of a table at all levels, each once.
func keysOf(t reflect.Type) []string {
	var keys []string
	for i := range t.NumField() {
		f := t.Field(i)
		if name, _, _ := strings.Cut(f.Tag.Get("yaml"), ","); name != "" && !slices.Contains(keys, name) {
			keys = append(keys, name)
		}
		if f.Type.Kind() == reflect.Struct && f.Type != reflect.TypeFor[Store]() {
			for _, k := range keysOf(f.Type) {
				if !slices.Contains(keys, k) {
					keys = append(keys, k)
				}
			}
		}
	}
	return keys
}

func (t *table) policy() (Policy, error) {
	p := Policy{
		Inputs: t.Inputs, Partials: t.Partials, Embed: t.Embed, Linear: t.Linear, Pointwise: t.Pointwise, Residual: t.Residual,
		Norm: t.Norm, Statistics: t.Statistics, Scores: t.Scores, Masked: t.Masked, Exponential: t.Exponential,
		Reciprocal: t.Reciprocal, Probabilities: t.Probabilities, LossGrad: t.LossGrad, Accumulate: t.Accumulate,
		RunningMean: t.RunningMean, Shares: t.Shares, Reduce: t.Reduce, Divide: t.Divide, Parameters: t.Parameters,
		Working: t.Working,
	}
	switch t.Overflow {
	case "", "infinity":
	case "saturate":
		p.Overflow = numerics.Clip
	case "nan":
		p.Overflow = numerics.NaN
	default:
		return p, fmt.Errorf("overflow is %q, want infinity, saturate or nan", t.Overflow)
	}
	own := map[string]*format.Format{}
	for name, described := range t.Formats {
		text, err := yaml.Marshal(described)
		if err != nil {
			return p, err
		}
		f, err := format.Parse(name, text)
		if err != nil {
			return p, err
		}
		own[name] = f
	}
	p.Products.Hadamard = t.Products.ParameterGradient.Hadamard
	p.Products.Delayed, p.Products.Wide, p.Products.Chunk = t.Products.Delayed, t.Products.Wide, t.Products.Chunk
	for _, o := range []struct {
		key, text string
		to        **format.Quantizer
	}{
		{"forward.input", t.Products.Forward.Input, &p.Products.Input},
		{"forward.weight", t.Products.Forward.Weight, &p.Products.Weight},
		{"input_gradient.gradient", t.Products.InputGradient.Gradient, &p.Products.BackGradient},
		{"input_gradient.weight", t.Products.InputGradient.Weight, &p.Products.BackWeight},
		{"parameter_gradient.gradient", t.Products.ParameterGradient.Gradient, &p.Products.WeightGradient},
		{"parameter_gradient.input", t.Products.ParameterGradient.Input, &p.Products.WeightInput},
	} {
		var err error
		if *o.to, err = parseOperand(o.text, own); err != nil {
			return p, fmt.Errorf("products.%s: %w", o.key, err)
		}
	}
	return p, p.Validate()
}

// MarshalText writes a store as a policy has it, such as "fp16 stochastic".
func (s Store) MarshalText() ([]byte, error) {
	text, err := s.Format.MarshalText()
	if err == nil && s.Stochastic {
		text = append(text, " stochastic"...)
	}
	return text, err
}

// UnmarshalText reads what MarshalText writes.
func (s *Store) UnmarshalText(text []byte) error {
	name, rounding, given := strings.Cut(string(text), " ")
	f, err := numerics.ParseFormat(name)
	if err != nil {
		return err
	}
	if given && rounding != "stochastic" {
		return fmt.Errorf("store %q, want FORMAT or FORMAT stochastic", text)
	}
	*s = Store{Format: f, Stochastic: given}
	return nil
}

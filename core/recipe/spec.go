package recipe

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Spec is how commands and records name a backend or an optimizer: NAME[:PRECISION][?OPTION=VALUE[&OPTION=VALUE...]].
// Optimizers have no precision.
type Spec struct {
	Name      string  // of the plugin
	Precision string  // empty: the recipe's, or else the plugin's default
	Options   Options // override the recipe's in all phases
}

// ParseSpec reads what String writes, with the options in any order. A value is text as in a recipe, up to the next &.
// Which options exist is for the plugin to say.
func ParseSpec(text string) (Spec, error) {
	plugin, options, given := strings.Cut(text, "?")
	var s Spec
	s.Name, s.Precision, _ = strings.Cut(plugin, ":")
	if s.Name == "" {
		return Spec{}, fmt.Errorf("%q names no plugin: want NAME, NAME:PRECISION or NAME?OPTION=VALUE", text)
	}
	if !given {
		return s, nil
	}
	s.Options = Options{}
	for field := range strings.SplitSeq(options, "&") {
		name, value, ok := strings.Cut(field, "=")
		if !ok || name == "" {
			return Spec{}, fmt.Errorf("%s: %q is not an option: want NAME?OPTION=VALUE&OPTION=VALUE", text, field)
		}
		if _, twice := s.Options[name]; twice {
			return Spec{}, fmt.Errorf("%s: option %s is given twice", text, name)
		}
		s.Options[name] = value
	}
	return s, nil
}

// LearningRateOption is the option of an optimizer's spec that the host reads and no plugin sees. A number is the
// highest rate of every phase; x and a number is a factor of each phase's own: adamw?learning_rate=x1.5.
const LearningRateOption = "learning_rate"

// ParseOptimizer is ParseSpec for an optimizer, which has no precision.
func ParseOptimizer(text string) (Spec, error) {
	s, err := ParseSpec(text)
	if err != nil {
		return Spec{}, err
	}
	if s.Precision != "" {
		return Spec{}, fmt.Errorf("%s: an optimizer has no precision", text)
	}
	if rate, given := s.Options[LearningRateOption]; given {
		if _, err := changedRate(1, rate); err != nil {
			return Spec{}, fmt.Errorf("%s: %w", text, err)
		}
	}
	return s, nil
}

// MicroBatchOption is the option of a backend's spec that the host reads and no plugin sees: how many sequences of the
// global batch are taken at once, gpu-ref?micro_batch=8. It changes the order of sums alone.
const MicroBatchOption = "micro_batch"

// ParseBackend is ParseSpec for a backend.
func ParseBackend(text string) (Spec, error) {
	s, err := ParseSpec(text)
	if err != nil {
		return Spec{}, err
	}
	if _, err := s.microBatch(); err != nil {
		return Spec{}, fmt.Errorf("%s: %w", text, err)
	}
	return s, nil
}

// microBatch is the number in MicroBatchOption; 0: it is not given.
func (s Spec) microBatch() (int, error) {
	text, given := s.Options[MicroBatchOption]
	if !given {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > mostMicroBatch {
		return 0, fmt.Errorf("%s %q: want a number of sequences from 1 to %d", MicroBatchOption, text, mostMicroBatch)
	}
	return n, nil
}

// changedRate applies the text of LearningRateOption to a phase's rate.
func changedRate(rate float64, text string) (float64, error) {
	number, isFactor := strings.CutPrefix(text, "x")
	value, err := strconv.ParseFloat(number, 64)
	if err != nil || !(value >= 0 && value <= 100) {
		return 0, fmt.Errorf("%s %q: want a rate from 0 to 100 such as 3e-5, or a factor such as x1.5", LearningRateOption, text)
	}
	if isFactor {
		return rate * value, nil
	}
	return value, nil
}

// PluginName is the name of the plugin in a spec.
func PluginName(spec string) string {
	if end := strings.IndexAny(spec, ":?"); end >= 0 {
		return spec[:end]
	}
	return spec
}

// Base is the spec without its options: NAME or NAME:PRECISION, the key of a backend's settings in a recipe.
func (s Spec) Base() string {
	if s.Precision == "" {
		return s.Name
	}
	return s.Name + ":" + s.Precision
}

// String is the spec with its options sorted by name: equal specs give equal text, and different ones different text.
func (s Spec) String() string {
	text := s.Base()
	separator := "?"
	for _, name := range slices.Sorted(maps.Keys(s.Options)) {
		text += separator + name + "=" + s.Options[name]
		separator = "&"
	}
	return text
}

// WithBackend returns the recipe with the options of a backend's spec among its settings, where they override those
// of all phases and steps. The fingerprint stays the same.
func (r *Recipe) WithBackend(s Spec) *Recipe {
	if len(s.Options) == 0 {
		return r
	}
	micro, err := s.microBatch()
	if err != nil {
		panic("recipe: a backend's spec that ParseBackend did not read")
	}
	changed := *r
	changed.Backends = map[string]Backend{}
	maps.Copy(changed.Backends, r.Backends)
	for _, key := range []string{s.Name, s.Base()} {
		if b, ok := changed.Backends[key]; ok {
			b = b.without(s.Options)
			if micro > 0 {
				b = b.uncut()
			}
			changed.Backends[key] = b
		}
	}
	b := changed.Backends[s.Base()]
	b.Options = b.Options.with(s.Options)
	if micro > 0 {
		delete(b.Options, MicroBatchOption)
		b.MicroBatch = micro
	}
	changed.Backends[s.Base()] = b
	return &changed
}

// without returns the settings without the options that others override.
func (s Backend) without(others Options) Backend {
	s.Options = s.Options.without(others)
	s.OptionsByStep = maps.Clone(s.OptionsByStep)
	for step, o := range s.OptionsByStep {
		s.OptionsByStep[step] = o.without(others)
	}
	s.Phases = maps.Clone(s.Phases)
	for name, b := range s.Phases {
		s.Phases[name] = b.without(others)
	}
	return s
}

// uncut returns the settings without a cut of their own.
func (s Backend) uncut() Backend {
	s.MicroBatch, s.Accumulation, s.Replicas = 0, 0, 0
	s.Phases = maps.Clone(s.Phases)
	for name, b := range s.Phases {
		s.Phases[name] = b.uncut()
	}
	return s
}

// without returns the options that others do not name.
func (o Options) without(others Options) Options {
	o = maps.Clone(o)
	maps.DeleteFunc(o, func(name, _ string) bool { _, named := others[name]; return named })
	return o
}

// with returns the options, overridden by others.
func (o Options) with(others Options) Options {
	merged := Options{}
	maps.Copy(merged, o)
	maps.Copy(merged, others)
	return merged
}

package train

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"harness.invalid/core/optimizer"
	"harness.invalid/core/option"
)

// firstMoment is an option of both backends and optimizers: the format in which the first moment is kept. The
// moment lies in the optimizer's slots, but the device's memory decides which format it can afford.
const firstMoment = "first_moment"

// withMoment returns the optimizer's options with the backend's first_moment, unless the recipe sets that of the
// optimizer.
func withMoment(
	ctx context.Context, rule optimizer.Optimizer, name string, options, backend map[string]string,
) (map[string]string, error) {
	format, ok := backend[firstMoment]
	if _, said := options[firstMoment]; !ok || said {
		return options, nil
	}
	info, err := rule.Describe(ctx)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(info.Options, func(o option.Option) bool { return o.Name == firstMoment }) {
		if format == "fp32" {
			return options, nil
		}
		return nil, fmt.Errorf("the backend's option %s is %s, and the optimizer %s has no such option", firstMoment, format, name)
	}
	options = maps.Clone(options)
	if options == nil {
		options = map[string]string{}
	}
	options[firstMoment] = format
	return options, nil
}

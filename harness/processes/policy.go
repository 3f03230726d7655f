package processes

import (
	"fmt"
	"path/filepath"
	"slices"

	"harness.invalid/core/backend"
	"harness.invalid/core/bounded"
	"harness.invalid/core/emulator"
	"harness.invalid/core/option"
)

// mostPolicy is the size of a policy's file that is read.
const mostPolicy = 64 * bounded.KiB

// ReadPolicy reads the file that is named in place of a precision, as in gpu-ref:FILE.yaml. It returns the name of the
// file without its folder, and its text; the precision itself, and no text, where that names no such file.
func ReadPolicy(precision string) (name, text string, err error) {
	if ext := filepath.Ext(precision); ext != ".yaml" && ext != ".yml" {
		return precision, "", nil
	}
	file, err := bounded.ReadFile(precision, mostPolicy)
	if err != nil {
		return "", "", fmt.Errorf("number formats: %w", err)
	}
	return filepath.Base(precision), string(file), nil
}

// NamedPolicy is the text of the policy that is named in place of a precision, as in gpu-ref:fp8: one that comes with the
// program, for a backend that has no such precision and takes policies; else empty.
func NamedPolicy(info backend.Info, precision string) (string, error) {
	takes := slices.ContainsFunc(info.Options, func(o option.Option) bool { return o.Name == backend.PolicyOption })
	if _, err := info.Precision(precision); err == nil || !takes || !slices.Contains(emulator.PolicyNames(), precision) {
		return "", nil
	}
	text, err := emulator.PolicyText(precision)
	return string(text), err
}

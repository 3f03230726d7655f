// Package numerics holds the number formats that accelerators compute in, emulated in float32, and the loss scaling
// that the narrow ones need.
//
// Float32 values go in, and float32 values that the narrow format also has come out; a Rounding says how. The
// functions here are scalar and are the specification: core/kernels does the same to whole slices with vector
// instructions, bit for bit.
package numerics

import (
	"errors"
	"fmt"
	"math"
)

// ErrInvalid marks settings that no device has.
var ErrInvalid = errors.New("invalid numerics")

// Format is a binary floating point format.
type Format uint8

// The formats. All have one sign bit.
const (
	FP32 Format = iota // IEEE 754 binary32: 8 exponent bits, 23 mantissa bits
	TF32               // the input format of NVIDIA's tensor cores: 8 exponent bits, 10 mantissa bits, kept in 32 bits
	BF16               // bfloat16: 8 exponent bits, 7 mantissa bits
	FP16               // IEEE 754 binary16: 5 exponent bits, 10 mantissa bits, with subnormals
)

var formats = [...]struct {
	name     string
	mantissa int
	max      float32
}{
	FP32: {"fp32", 23, math.MaxFloat32},
	TF32: {"tf32", 10, 0x1.ffcp127},
	BF16: {"bf16", 7, 0x1.fep127},
	FP16: {"fp16", 10, 65504},
}

// String returns the name that ParseFormat reads: "fp32", "tf32", "bf16" or "fp16".
func (f Format) String() string {
	if int(f) < len(formats) {
		return formats[f].name
	}
	return fmt.Sprintf("Format(%d)", uint8(f))
}

// ParseFormat returns the format of a name as String writes it.
func ParseFormat(name string) (Format, error) {
	for f := range formats {
		if formats[f].name == name {
			return Format(f), nil
		}
	}
	return 0, fmt.Errorf("number format %q is not one of fp32, tf32, bf16, fp16: %w", name, ErrInvalid)
}

// MarshalText writes the name, for YAML and JSON.
func (f Format) MarshalText() ([]byte, error) {
	if int(f) >= len(formats) {
		return nil, fmt.Errorf("number format %d is unknown: %w", uint8(f), ErrInvalid)
	}
	return []byte(formats[f].name), nil
}

// UnmarshalText reads the name.
func (f *Format) UnmarshalText(text []byte) error {
	parsed, err := ParseFormat(string(text))
	if err != nil {
		return err
	}
	*f = parsed
	return nil
}

// Max returns the largest finite value.
func (f Format) Max() float32 { return formats[f].max }

// MantissaBits returns the number of explicit mantissa bits: a value of size x is rounded to nearest with an error
// of at most |x|·2^-(MantissaBits+1), unless it is subnormal in the format.
func (f Format) MantissaBits() int { return formats[f].mantissa }

// Round returns the value of the format nearest to x, ties to even. Values that are too large become infinite.
func (f Format) Round(x float32) float32 { return Rounding{Format: f}.Round(x, 0) }

package gpuref

import (
	"harness.invalid/core/emulator"
	"harness.invalid/core/numerics"
)

// policy is the table of a precision.
func policy(precision string) emulator.Policy {
	switch precision {
	case "tf32":
		return emulator.Policy{Inputs: numerics.TF32}
	case "bf16":
		return autocast(numerics.BF16)
	case "fp16":
		return autocast(numerics.FP16)
	case "fp16-o2":
		return pure(numerics.FP16)
	}
	return emulator.Policy{}
}

// pure is the table of a model that was cast to a narrow format as a whole.
func pure(f numerics.Format) emulator.Policy {
	n := emulator.Store{Format: f}
	row := emulator.Row{Out: n, Grad: n, Weight: n}
	return emulator.Policy{
		Inputs: f,
		Embed:  row, Linear: row, Pointwise: row, Residual: row, Norm: row, Scores: row, Probabilities: row,
		LossGrad: n, Accumulate: n, Shares: true, Reduce: n, Divide: true, Working: n,
	}
}

// firstBucketBytes is the size of DistributedDataParallel's first bucket, so that the reduction begins early. Source:
// pytorch, torch/csrc/distributed/c10d/reducer.hpp (kDefaultFirstBucketBytes).
const firstBucketBytes = 1 << 20

// autocast is PyTorch's table for a narrow format.
func autocast(f numerics.Format) emulator.Policy {
	n := emulator.Store{Format: f}
	return emulator.Policy{
		Inputs:    f,
		Linear:    emulator.Row{Out: n, Grad: n, Weight: n},
		Pointwise: emulator.Row{Out: n, Grad: n},
		Scores:    emulator.Row{Out: n, Grad: n},
		LossGrad:  n,
	}
}

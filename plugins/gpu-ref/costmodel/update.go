package costmodel

import "harness.invalid/core/backend"

// fusedKernels are those of a fused optimizer, which goes over many tensors with one kernel: of the norm, of the
// update, and of what mixed precision adds, for some four hundred tensors. It is an assumption.
const fusedKernels = 20

// Where an optimizer is not fused, its operations are kernels of their own on each tensor. In FP32 and TF32 NVIDIA
// fine-tunes with BertAdam, which has some 14 kernels for each tensor and reads and writes 30 numbers for each
// parameter (DeepLearningExamples, optimization.py), where Adam has 16 operations.
const (
	kernelsPerOperation  = 14. / 16
	accessesPerOperation = 30. / 16
)

// FP32 numbers of masters and state.
const fp32Bytes = 4

// updateSeconds is the optimizer's: what it reads and writes, its arithmetic, or its kernels, whichever takes
// longest, and its matrix products. Under mixed precision gradients are read and written once more, to take the loss
// scale off and to look for overflow, and weights are written from their masters.
func (m *model) updateSeconds() float64 {
	if len(m.update.Tensors) == 0 {
		return 0
	}
	grad, mixed := m.format.weightBytes, m.format.masters > 0
	fused := m.update.Fused || m.software.fused || mixed && m.software.fusedMixed
	var bytes, flops, kernels, products float64
	var operations float64 // on tensors without kernels of their own
	together := false
	for i, t := range m.layout.Tensors() {
		w, n := &m.update.Tensors[i], float64(t.Len())
		flops += w.Flops
		kernels += w.Kernels
		if w.Kernels == 0 {
			together = true
			operations += w.Flops
		}
		if w.Kernels > 0 || fused {
			bytes += m.update.MovedBytes(i, t.Len(), fp32Bytes, grad)
		}
		if mixed {
			bytes += n * (2*grad + m.format.weightBytes)
		}
		for _, p := range w.Products {
			single := m.singlePrecision()
			seconds := single.multiply(single.stored(), p.Groups, p.M, p.K, p.N).seconds()
			products += p.Count * max(m.software.updateKernelSeconds(), seconds)
		}
	}
	switch {
	case !together:
	case fused:
		kernels += fusedKernels
	default:
		bytes += operations * accessesPerOperation * fp32Bytes
		kernels += float64(len(m.layout.Tensors())) * operations / m.parameters() * kernelsPerOperation
	}
	return max(bytes/m.memoryBytesPerSecond, flops/m.singlePrecision().flops, kernels*m.software.updateKernelSeconds()) + products
}

// singlePrecision is the model of a machine that computes in FP32, as optimizers do.
func (m *model) singlePrecision() *model {
	q := *m
	q.format = formats["fp32"]
	if flops, ok := m.system.Chip.Flops["fp32"]; ok {
		q.flops = flops
	}
	return &q
}

// stateBytes are those of masters and of the optimizer's state, and of parameters that are set aside during a second
// gradient.
func (m *model) stateBytes() float64 {
	params := m.parameters()
	bytes := params * m.format.masters
	if m.update.Probes {
		bytes += params * fp32Bytes
	}
	for i := range m.update.Tensors {
		bytes += m.update.StateBytes(i, m.layout.Tensors()[i].Len())
	}
	return bytes
}

// updateAssumptions are what is taken for granted about the optimizer.
func (m *model) updateAssumptions() []backend.Assumption {
	switch {
	case len(m.update.Tensors) == 0:
		return []backend.Assumption{{
			Setting: "optimizer", Modelled: "none", Reason: "none is given: neither its state nor its update is in these numbers",
		}}
	case m.update.Assumed != "":
		return []backend.Assumption{{Setting: "optimizer", Reason: m.update.Assumed}}
	}
	return nil
}

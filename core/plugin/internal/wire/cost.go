package wire

import (
	"harness.invalid/core/optimizer"
	"harness.invalid/core/plugin/internal/pb"
)

// EncodeCost writes what an update costs. It is nil for a cost without tensors: there is no update.
func EncodeCost(c optimizer.Cost) *pb.UpdateCost {
	if len(c.Tensors) == 0 {
		return nil
	}
	w := &pb.UpdateCost{Probes: c.Probes, Fused: c.Fused, Assumed: c.Assumed}
	for _, s := range c.Slots {
		w.Slots = append(w.Slots, &pb.SlotFormat{Name: s.Name, Format: s.Format, Bits: int64(s.Bits)})
	}
	for i := range c.Tensors {
		t := &c.Tensors[i]
		cost := &pb.TensorCost{State: t.State, Flops: t.Flops, Params: t.Params, Grads: t.Grads, Scratch: t.Scratch, Kernels: t.Kernels}
		for _, p := range t.Products {
			cost.Products = append(cost.Products, &pb.Product{Count: p.Count, Groups: int64(p.Groups), M: int64(p.M), K: int64(p.K), N: int64(p.N)})
		}
		w.Tensors = append(w.Tensors, cost)
	}
	return w
}

// DecodeCost is the inverse of EncodeCost. Callers must validate the result with optimizer.Cost.Check.
func DecodeCost(w *pb.UpdateCost) optimizer.Cost {
	c := optimizer.Cost{Probes: w.GetProbes(), Fused: w.GetFused(), Assumed: w.GetAssumed()}
	for _, s := range w.GetSlots() {
		c.Slots = append(c.Slots, optimizer.Slot{Name: s.GetName(), Format: s.GetFormat(), Bits: int(s.GetBits())})
	}
	for _, t := range w.GetTensors() {
		cost := optimizer.TensorCost{
			State: t.GetState(), Flops: t.GetFlops(), Params: t.GetParams(), Grads: t.GetGrads(), Scratch: t.GetScratch(), Kernels: t.GetKernels(),
		}
		for _, p := range t.GetProducts() {
			cost.Products = append(cost.Products, optimizer.Product{
				Count: p.GetCount(), Groups: int(p.GetGroups()), M: int(p.GetM()), K: int(p.GetK()), N: int(p.GetN()),
			})
		}
		c.Tensors = append(c.Tensors, cost)
	}
	return c
}

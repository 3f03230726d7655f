package wire

import (
	"harness.invalid/core/backend"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/option"
	"harness.invalid/core/plugin/internal/pb"
)

// EncodeBackendInfo writes what a backend says of itself.
func EncodeBackendInfo(info backend.Info) *pb.DescribeBackendResponse {
	w := &pb.DescribeBackendResponse{
		Name: info.Name, Version: info.Version, Doc: info.Doc, Options: encodeOptions(info.Options), RepeatsSteps: info.RepeatsSteps,
	}
	for _, p := range info.Precisions {
		w.Precisions = append(w.Precisions, &pb.Precision{
			Name: p.Name, Doc: p.Doc, OutputTolerance: p.OutputTolerance, GradientTolerance: p.GradientTolerance, Reason: p.Reason,
		})
	}
	return w
}

// DecodeBackendInfo is the inverse of EncodeBackendInfo.
func DecodeBackendInfo(w *pb.DescribeBackendResponse) backend.Info {
	info := backend.Info{
		Name: w.GetName(), Version: w.GetVersion(), Doc: w.GetDoc(), Options: decodeOptions(w.GetOptions()),
		RepeatsSteps: w.GetRepeatsSteps(),
	}
	for _, p := range w.GetPrecisions() {
		info.Precisions = append(info.Precisions, backend.Precision{
			Name: p.GetName(), Doc: p.GetDoc(), Reason: p.GetReason(),
			OutputTolerance: p.GetOutputTolerance(), GradientTolerance: p.GetGradientTolerance(),
		})
	}
	return info
}

// EncodeOptimizerInfo writes what an optimizer says of itself.
func EncodeOptimizerInfo(info optimizer.Info) *pb.DescribeOptimizerResponse {
	return &pb.DescribeOptimizerResponse{
		Name: info.Name, Version: info.Version, Doc: info.Doc, Options: encodeOptions(info.Options),
		Probes: info.Probes, Averages: info.Averages,
	}
}

// DecodeOptimizerInfo is the inverse of EncodeOptimizerInfo.
func DecodeOptimizerInfo(w *pb.DescribeOptimizerResponse) optimizer.Info {
	return optimizer.Info{
		Name: w.GetName(), Version: w.GetVersion(), Doc: w.GetDoc(), Options: decodeOptions(w.GetOptions()),
		Probes: w.GetProbes(), Averages: w.GetAverages(),
	}
}

func encodeOptions(options []option.Option) []*pb.Option {
	w := make([]*pb.Option, len(options))
	for i, o := range options {
		w[i] = &pb.Option{Name: o.Name, DefaultValue: o.Default, Doc: o.Doc}
	}
	return w
}

func decodeOptions(w []*pb.Option) []option.Option {
	options := make([]option.Option, len(w))
	for i, o := range w {
		options[i] = option.Option{Name: o.GetName(), Default: o.GetDefaultValue(), Doc: o.GetDoc()}
	}
	return options
}

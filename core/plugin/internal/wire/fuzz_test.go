package wire

import (
	"io"
	"testing"

	"google.golang.org/protobuf/proto"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/plugin/internal/pb"
)

// messages decode what a plugin sends, or what a host does, and encode it again.
var messages = []func(data []byte) (first, again proto.Message){
	func(data []byte) (_, _ proto.Message) {
		return decoded(data, &pb.DescribeBackendResponse{}, func(m *pb.DescribeBackendResponse) proto.Message {
			return EncodeBackendInfo(DecodeBackendInfo(m))
		})
	},
	func(data []byte) (_, _ proto.Message) {
		return decoded(data, &pb.DescribeOptimizerResponse{}, func(m *pb.DescribeOptimizerResponse) proto.Message {
			return EncodeOptimizerInfo(DecodeOptimizerInfo(m))
		})
	},
	func(data []byte) (_, _ proto.Message) {
		return decoded(data, &pb.Program{}, func(m *pb.Program) proto.Message { return EncodeProgram(DecodeProgram(m)) })
	},
	func(data []byte) (_, _ proto.Message) {
		return decoded(data, &pb.BackendStepResponse{}, func(m *pb.BackendStepResponse) proto.Message {
			r, err := DecodeStepResult(m)
			if err != nil {
				return nil
			}
			return EncodeStepResult(r)
		})
	},
	func(data []byte) (_, _ proto.Message) {
		return decoded(data, &pb.EstimateResponse{}, func(m *pb.EstimateResponse) proto.Message { return EncodeEstimate(DecodeEstimate(m)) })
	},
	func(data []byte) (_, _ proto.Message) {
		return decoded(data, &pb.SystemsResponse{}, func(m *pb.SystemsResponse) proto.Message { return EncodeSystems(DecodeSystems(m)) })
	},
	func(data []byte) (_, _ proto.Message) {
		return decoded(data, &pb.VariationsResponse{}, func(m *pb.VariationsResponse) proto.Message {
			return EncodeVariations(DecodeVariations(m))
		})
	},
	func(data []byte) (_, _ proto.Message) {
		m := &pb.Tensor{}
		if proto.Unmarshal(data, m) == nil {
			if l, err := DecodeLayout([]*pb.Tensor{m}); err == nil {
				return nil, EncodeLayout(l)[0]
			}
		}
		return nil, nil
	},
}

// decoded is what encode makes of a message, once and of that once more; nil if it is refused.
func decoded[M proto.Message](data []byte, m M, encode func(M) proto.Message) (first, again proto.Message) {
	if proto.Unmarshal(data, m) != nil {
		return nil, nil
	}
	if first = encode(m); first == nil {
		return nil, nil
	}
	return first, encode(first.(M))
}

// FuzzMessages: no message makes host or plugin panic, and what was understood of it is said as it was understood.
func FuzzMessages(f *testing.F) {
	for i, m := range []proto.Message{
		&pb.DescribeBackendResponse{Name: "a", Precisions: []*pb.Precision{{Name: "fp32"}}, Options: []*pb.Option{{Name: "o"}}},
		&pb.DescribeOptimizerResponse{Name: "a", Probes: true, Options: []*pb.Option{{Name: "o", DefaultValue: "1"}}},
		EncodeProgram(backend.Program{Model: bert.Config{VocabSize: 3}, Length: 4}),
		&pb.BackendStepResponse{Finite: true, Schedule: &pb.Schedule{Stages: []*pb.ScheduledStage{{Device: 1}}, MicroBatches: []uint32{1, 2}}},
		EncodeEstimate(backend.Estimate{}), &pb.SystemsResponse{}, &pb.VariationsResponse{},
		&pb.Tensor{Name: "t", Shape: []int64{1 << 62, 4}},
	} {
		data, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(i), data)
	}
	f.Fuzz(func(t *testing.T, which uint8, data []byte) {
		first, again := messages[int(which)%len(messages)](data)
		if first != nil && !proto.Equal(first, again) {
			t.Errorf("%v becomes %v", first, again)
		}
	})
}

// FuzzBatches: a stream of parts of batches is taken whole or refused.
func FuzzBatches(f *testing.F) {
	p := backend.Program{
		Model: bert.Config{VocabSize: 10, MaxPositionEmbeddings: 4, TypeVocabSize: 2}, Head: bert.Head{Task: bert.Pretraining},
	}
	for _, b := range []*pb.Batch{
		{Size: 1, Length: 2, InputIds: []int32{1, 2}, TokenTypeIds: []int32{0, 1}, AttentionMask: []int32{1, 1}},
		{Size: 1 << 40, Length: 1 << 40, More: true},
	} {
		data, err := proto.Marshal(b)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, data)
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		var parts []*pb.Batch
		for _, data := range [][]byte{first, second} {
			b := &pb.Batch{}
			if proto.Unmarshal(data, b) == nil {
				parts = append(parts, b)
			}
		}
		for b, err := range Batches(p, false, func() (*pb.Batch, error) {
			if len(parts) == 0 {
				return nil, io.EOF
			}
			next := parts[0]
			parts = parts[1:]
			return next, nil
		}) {
			if err == nil && b.Validate(p.Model, p.Head, false) != nil {
				t.Errorf("%v is taken", b)
			}
		}
	})
}

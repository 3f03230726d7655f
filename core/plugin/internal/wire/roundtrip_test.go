package wire

import (
	"errors"
	"io"
	"math"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/plugin/internal/pb"
)

// overWire encodes and decodes a message as gRPC does.
func overWire[M proto.Message](t *rapid.T, m, empty M) M {
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if err := proto.Unmarshal(b, empty); err != nil {
		t.Fatal(err)
	}
	return empty
}

// filled draws a value with random contents in all of its fields. Text is UTF-8 on the wire.
func filled[V any](t *rapid.T, what string) V {
	text := rapid.StringMatching(`[a-z0-9.]{0,8}`).AsAny()
	config := rapid.MakeConfig{Types: map[reflect.Type]*rapid.Generator[any]{reflect.TypeFor[string](): text}}
	return rapid.MakeCustom[V](config).Draw(t, what)
}

// same compares what was sent with what arrived. The wire does not distinguish empty maps and arrays from missing ones.
func same(t *rapid.T, what string, sent, arrived any) {
	numbers := cmp.Comparer(func(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) })
	if diff := cmp.Diff(sent, arrived, cmpopts.EquateEmpty(), numbers); diff != "" {
		t.Fatalf("%s (-sent +arrived):\n%s", what, diff)
	}
}

// TestRoundTrips fills every field of what is sent: a field that a conversion forgets does not arrive.
func TestRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := filled[backend.Program](t, "program")
		same(t, "program", p, DecodeProgram(overWire(t, EncodeProgram(p), &pb.Program{})))
		l := filled[bert.Losses](t, "losses")
		same(t, "losses", l, DecodeLosses(overWire(t, EncodeLosses(l), &pb.Losses{})))
		e := filled[backend.Estimate](t, "estimate")
		same(t, "estimate", e, DecodeEstimate(overWire(t, EncodeEstimate(e), &pb.EstimateResponse{})))
		m := filled[backend.Machine](t, "machine")
		if len(m.Update.Tensors) == 0 { // there is no update
			m.Update = optimizer.Cost{}
		}
		same(t, "machine", m, DecodeMachine(overWire(t, EncodeMachine(p, m), &pb.EstimateRequest{})))
		s := filled[[]backend.System](t, "systems")
		same(t, "systems", s, DecodeSystems(overWire(t, EncodeSystems(s), &pb.SystemsResponse{})))
		v := filled[[]backend.Variation](t, "variations")
		same(t, "variations", v, DecodeVariations(overWire(t, EncodeVariations(v), &pb.VariationsResponse{})))
		b := filled[backend.Info](t, "backend")
		same(t, "backend", b, DecodeBackendInfo(overWire(t, EncodeBackendInfo(b), &pb.DescribeBackendResponse{})))
		o := filled[optimizer.Info](t, "optimizer")
		same(t, "optimizer", o, DecodeOptimizerInfo(overWire(t, EncodeOptimizerInfo(o), &pb.DescribeOptimizerResponse{})))
	})
}

// TestStepRoundTrip does the same for results of steps, whose schedules have one entry per stage and cycle.
func TestStepRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := filled[backend.StepResult](t, "result")
		r.GradientNorm = 0 // is not sent
		if s := r.Schedule; s != nil {
			s.Stages = append(s.Stages, backend.ScheduledStage{})
			s.Cycles = rapid.SliceOfN(rapid.SliceOfN(rapid.IntRange(-1, 9), len(s.Stages), len(s.Stages)), 0, 4).Draw(t, "cycles")
		}
		got, err := DecodeStepResult(overWire(t, EncodeStepResult(r), &pb.BackendStepResponse{}))
		if err != nil {
			t.Fatal(err)
		}
		same(t, "result", r, got)
	})
	for _, cells := range []int{1, 3} {
		bad := &pb.Schedule{Stages: make([]*pb.ScheduledStage, 2), MicroBatches: make([]uint32, cells)}
		if _, err := DecodeStepResult(&pb.BackendStepResponse{Schedule: bad}); err == nil {
			t.Errorf("a schedule of %d entries for 2 stages was taken", cells)
		}
	}
}

func TestLayoutRoundTrip(t *testing.T) {
	model := bert.Defaults()
	for _, head := range []bert.Head{{Task: bert.Pretraining}, {Task: bert.QuestionAnswering}, {Task: bert.Classification, Labels: 3}} {
		l, err := bert.Parameters(model, head)
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeLayout(EncodeLayout(l))
		if err != nil || !got.Equal(l) || got.Len() != l.Len() {
			t.Errorf("%s: layout of %d elements came back as %v, %v", head.Task, l.Len(), got, err)
		}
	}
	for _, bad := range [][]*pb.Tensor{
		{{Name: "a", Shape: []int64{-1}}},
		{{Name: "a", Shape: []int64{1 << 40, 1 << 40}}},
		{{Name: "a", Shape: []int64{1}, Kind: 77}},
		{{Name: "a", Shape: []int64{1}, Kind: -1}},
		{{Name: "a", Shape: []int64{1}, Kind: 256}},
		{{Name: "a"}, {Name: "a"}},
		{nil},
	} {
		if _, err := DecodeLayout(bad); err == nil {
			t.Errorf("DecodeLayout(%v) gave no error", bad)
		}
	}
}

// TestBatchRoundTrip sends batches of every task, whole and in parts.
func TestBatchRoundTrip(t *testing.T) {
	config := bert.Defaults()
	rapid.Check(t, func(t *rapid.T) {
		head := rapid.SampledFrom([]bert.Head{
			{Task: bert.Pretraining}, {Task: bert.QuestionAnswering}, {Task: bert.Classification, Labels: 3}, {Task: bert.Classification, Labels: 1},
		}).Draw(t, "head")
		// 300 sequences of 512 tokens are two messages.
		b := &bert.Batch{
			Size:   rapid.SampledFrom([]int{1, 3, 256, 257, 300}).Draw(t, "size"),
			Length: rapid.SampledFrom([]int{8, 512}).Draw(t, "length"),
			Sample: rapid.IntRange(0, 1<<20).Draw(t, "sample"),
		}
		ids := func(n, limit int) []int32 {
			v := make([]int32, n)
			first := rapid.IntRange(0, limit-1).Draw(t, "first")
			for i := range v {
				v[i] = int32((first + i) % limit)
			}
			return v
		}
		tokens := b.Size * b.Length
		b.InputIDs, b.TokenTypeIDs, b.AttentionMask = ids(tokens, config.VocabSize), ids(tokens, 2), ids(tokens, 2)
		switch {
		case head.Task == bert.Pretraining:
			b.Predictions = 2
			b.MaskedLMPositions, b.MaskedLMIDs, b.NextSentenceLabels = ids(2*b.Size, b.Length), ids(2*b.Size, config.VocabSize), ids(b.Size, 2)
			b.MaskedLMWeights = make([]float32, 2*b.Size)
			for i := range b.MaskedLMWeights {
				b.MaskedLMWeights[i] = float32(i)
			}
		case head.Task == bert.QuestionAnswering:
			b.StartPositions, b.EndPositions = ids(b.Size, b.Length), ids(b.Size, b.Length)
		case head.Labels > 1:
			b.Labels = ids(b.Size, 3)
		default:
			b.Targets = make([]float32, b.Size)
			for i := range b.Targets {
				b.Targets[i] = float32(i) / 3
			}
		}
		var messages []*pb.Batch
		if err := EncodeBatch(b, func(w *pb.Batch) error {
			if n := proto.Size(w); n > MaxMessageBytes/4 {
				t.Fatalf("a message of %d bytes", n)
			}
			messages = append(messages, overWire(t, w, &pb.Batch{}))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		got, errs := receiveAll(backend.Program{Model: config, Head: head}, messages)
		if len(errs) != 0 || len(got) != 1 || !reflect.DeepEqual(got[0], b) {
			t.Fatalf("a batch of %d sequences in %d messages came back as %d batches, errors %v", b.Size, len(messages), len(got), errs)
		}
	})
}

func receiveAll(p backend.Program, messages []*pb.Batch) (got []*bert.Batch, errs []error) {
	for b, err := range Batches(p, true, func() (*pb.Batch, error) {
		if len(messages) == 0 {
			return nil, io.EOF
		}
		m := messages[0]
		messages = messages[1:]
		return m, nil
	}) {
		if err != nil {
			errs = append(errs, err)
		} else {
			got = append(got, b)
		}
	}
	return got, errs
}

// TestWildBatches: what a broken host sends gives one error, and never a batch that no model could take.
func TestWildBatches(t *testing.T) {
	config := bert.Defaults()
	config.VocabSize, config.MaxPositionEmbeddings = 4, 4
	rapid.Check(t, func(t *rapid.T) {
		small := rapid.Int64Range(-1, 4)
		array := rapid.SliceOfN(rapid.Int32Range(-1, 5), 0, 6)
		head := bert.Head{Task: bert.QuestionAnswering}
		messages := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) *pb.Batch {
			return &pb.Batch{
				Size: small.Draw(t, "size"), Length: small.Draw(t, "length"), Sample: small.Draw(t, "sample"), More: rapid.Bool().Draw(t, "more"),
				InputIds: array.Draw(t, "ids"), TokenTypeIds: array.Draw(t, "types"), AttentionMask: array.Draw(t, "mask"),
				StartPositions: array.Draw(t, "start"), EndPositions: array.Draw(t, "end"),
			}
		}), 0, 3).Draw(t, "messages")
		got, errs := receiveAll(backend.Program{Model: config, Head: head}, messages)
		if len(errs) > 1 {
			t.Fatalf("%d errors, want the first to end the batches: %v", len(errs), errors.Join(errs...))
		}
		for _, b := range got {
			if err := b.Validate(config, head, true); err != nil {
				t.Fatalf("a bad batch went through: %v", err)
			}
		}
	})
}

// TestChunks cuts sections into pieces that fit a message.
func TestChunks(t *testing.T) {
	for _, n := range []int{0, 1, ChunkElements, ChunkElements + 1, 3*ChunkElements + 5} {
		at := 0
		section := make([]float32, n)
		err := Chunks(section, func(offset int, values []float32) error {
			if offset != at || len(values) == 0 || len(values) > ChunkElements {
				t.Errorf("%d elements: chunk of %d at %d, want one at %d", n, len(values), offset, at)
			}
			at += len(values)
			return nil
		})
		if err != nil || at != n {
			t.Errorf("%d elements: chunks cover %d, error %v", n, at, err)
		}
	}
}

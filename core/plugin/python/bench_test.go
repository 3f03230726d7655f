package python_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"harness.invalid/core/arena"
	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/plugin"
)

// BenchmarkStep is what a process in Python costs a step of pre-training: BERT's batch of phase 1, 32 sequences of 128 tokens in one micro-batch, there;
// gradients of BERT-Tiny back; an update's parameters there and back. BenchmarkStep of core/plugin is the same in Go. Beside wall time it gives the CPU time of the
// plugin's process, which other load does not change.
func BenchmarkStep(b *testing.B) {
	for _, transport := range transports {
		b.Run(string(transport), func(b *testing.B) {
			model, err := bert.Defaults().Size("tiny")
			if err != nil {
				b.Fatal(err)
			}
			p := backend.Program{Model: model, Head: bert.Head{Task: bert.Pretraining}, Length: 128, MaxPredictions: 20, MicroBatch: 32, Accumulation: 1, Replicas: 1}
			l, err := bert.Parameters(p.Model, p.Head)
			if err != nil {
				b.Fatal(err)
			}
			shared, err := arena.New()
			if err != nil {
				b.Fatal(err)
			}
			defer shared.Close()
			r, err := shared.Allocate(l, 2)
			if err != nil {
				b.Fatal(err)
			}
			s := spec(b, transport, "testdata/idle.py")
			s.Kind, s.Arena = plugin.Backend, shared
			process := start(b, s)
			session, err := process.Backend().Open(b.Context(), p, backend.Memory{Layout: l, Params: r.Params(), Grads: r.Grads()})
			if err != nil {
				b.Fatal(err)
			}
			defer session.Close()
			batch := full(p)
			before, step := cpuTime(b, process.PID()), 0
			for b.Loop() {
				step++
				r.Params()[0]++ // as an optimizer does, so that they have to be sent
				if err := session.Commit(b.Context(), step); err != nil {
					b.Fatal(err)
				}
				_, err := session.Step(b.Context(), backend.Step{Step: step, Sequences: batch.Size, MaskedWeight: batch.MaskedWeight()}, func(yield func(*bert.Batch, error) bool) { yield(batch, nil) })
				if err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric((cpuTime(b, process.PID())-before).Seconds()*1e3/float64(step), "plugin-cpu-ms/op")
		})
	}
}

// full is a batch of the program's size without padding.
func full(p backend.Program) *bert.Batch {
	tokens, masked := p.MicroBatch*p.Length, p.MicroBatch*p.MaxPredictions
	b := &bert.Batch{Size: p.MicroBatch, Length: p.Length, Predictions: p.MaxPredictions, InputIDs: make([]int32, tokens), TokenTypeIDs: make([]int32, tokens),
		AttentionMask: make([]int32, tokens), MaskedLMPositions: make([]int32, masked), MaskedLMIDs: make([]int32, masked), MaskedLMWeights: make([]float32, masked),
		NextSentenceLabels: make([]int32, p.MicroBatch)}
	for i := range b.InputIDs {
		b.InputIDs[i], b.AttentionMask[i] = int32(i*7919%p.Model.VocabSize), 1
	}
	for i := range b.MaskedLMIDs {
		b.MaskedLMIDs[i], b.MaskedLMWeights[i] = int32(i*104729%p.Model.VocabSize), 1
	}
	return b
}

// cpuTime is what a process has used, 0 where the system does not tell.
func cpuTime(b *testing.B, pid int) time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	var ticks int
	for _, f := range fields[11:13] { // utime and stime, in hundredths of a second
		n, err := strconv.Atoi(f)
		if err != nil {
			b.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

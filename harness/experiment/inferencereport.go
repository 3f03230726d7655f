package experiment

import (
	"context"
	"errors"
	"time"

	"harness.invalid/harness/inference"
)

// InferenceReport is a scenario's result, and what was measured. Times are measured.
type InferenceReport struct {
	*inference.Result
	Backend   string    `json:"backend"`
	Precision string    `json:"precision"`
	Batch     int       `json:"batch"`              // most samples that were answered at once
	WarmUp    float64   `json:"warm_up_seconds"`    // apart from the rest
	Accuracy  *Accuracy `json:"accuracy,omitempty"` // of a fine-tuned model on examples whose answers are known
}

// Run measures a scenario. Of s Samples and Batch follow from the model; QPS is half of what full batches reach if it
// is 0.
func (i Inference) Run(ctx context.Context, s inference.Settings) (_ *InferenceReport, err error) {
	serving, err := i.Serve(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, serving.Close()) }()
	s.Samples, s.Batch = len(serving.Model.Inputs), i.Batch
	if s.QPS == 0 {
		s.QPS = serving.Rate / 2
	}
	r := &InferenceReport{Backend: i.Arm.Backend, Precision: serving.Precision, Batch: i.Batch, WarmUp: serving.WarmUp}
	if r.Result, err = inference.Run(ctx, s, serving.Model, nil); err != nil {
		return nil, err
	}
	if i.Recipe == nil {
		return r, nil
	}
	if r.Accuracy, err = i.Accuracy(ctx); errors.Is(err, ErrUnlabelled) {
		err = nil
	}
	return r, err
}

// InferenceCell is a row of NVIDIA's tables of inference: a length and a batch, throughput, and latencies of a batch.
// Times are measured.
type InferenceCell struct {
	Length           int               `json:"sequence_length"`
	Batch            int               `json:"batch_size"`
	SamplesPerSecond float64           `json:"samples_per_second"`
	Latency          inference.Latency `json:"latency_ms"`
	Batches          int               `json:"batches"` // that were measured
	Precision        string            `json:"precision"`
}

// Cells measures random models at several lengths and batches, each for a time, and yields each as soon as it is known.
// Source of the form: NVIDIA/DeepLearningExamples, PyTorch/LanguageModeling/BERT, README, "Inference performance".
func (i Inference) Cells(ctx context.Context, lengths, batches []int, each time.Duration, yield func(InferenceCell) error) error {
	for _, length := range lengths {
		for _, batch := range batches {
			cell, err := i.cell(ctx, length, batch, each)
			if err != nil {
				return err
			}
			if err := yield(cell); err != nil {
				return err
			}
		}
	}
	return nil
}

func (i Inference) cell(ctx context.Context, length, batch int, each time.Duration) (_ InferenceCell, err error) {
	i.Random.Length, i.Batch = length, batch
	serving, err := i.Serve(ctx)
	if err != nil {
		return InferenceCell{}, err
	}
	defer func() { err = errors.Join(err, serving.Close()) }()
	r, err := inference.Run(ctx, inference.Settings{Scenario: inference.MultiStream, Duration: each, Limit: each, PerQuery: batch,
		Batch: batch, Samples: len(serving.Model.Inputs)}, serving.Model, nil)
	if err != nil {
		return InferenceCell{}, err
	}
	return InferenceCell{length, batch, r.SamplesPerSecond, r.Latency, r.Queries, serving.Precision}, nil
}

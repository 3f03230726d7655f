package recipe

import (
	"fmt"

	"harness.invalid/core/backend"
	"harness.invalid/core/dataset/pretraining"
)

// Program returns what a backend runs in a phase of the recipe. It is the only place where a phase becomes a
// program, so training, prediction and the machine models agree.
//
//	backendName, precision  as in ForBackend; an empty precision means the recipe's, else the backend's default
//	vocabulary              entries of the vocabulary that the data has
//	seed                    of the run
//
// Options are those of the first step; see Backend.OptionsAt. If no backend could run the program, the error names
// the phase.
func (r *Recipe) Program(p *Phase, backendName, precision string, vocabulary int, seed uint64) (backend.Program, error) {
	config, err := r.ModelConfig(vocabulary)
	if err != nil {
		return backend.Program{}, err
	}
	settings := r.ForBackend(backendName, precision, p.Name)
	cut, err := p.Cut(settings)
	if err != nil {
		return backend.Program{}, err
	}
	program := backend.Program{
		Model: p.PhaseModel(config), Head: p.Head(), Precision: settings.Precision, Options: settings.OptionsAt(0), Seed: seed,
		Length: p.Length, MaxPredictions: p.MaxPredictions,
		MicroBatch: cut.MicroBatch, Accumulation: cut.Accumulation, Replicas: cut.Replicas,
	}
	if q := p.SequencesPerPack; q > 1 {
		program.SequencesPerPack = q
		program.MaxPredictions = pretraining.PackedPredictions(p.MaxPredictions, q)
	}
	if err := program.Validate(); err != nil {
		return backend.Program{}, fmt.Errorf("phase %s: %w", p.Name, err)
	}
	return program, nil
}

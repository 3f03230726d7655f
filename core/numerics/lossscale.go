package numerics

import (
	"encoding/json"
	"fmt"
	"math"
)

// LossScaler holds the factor by which a loss is multiplied to keep small gradients from vanishing in FP16. It is
// dynamic, like torch.amp.GradScaler, or static when GrowthInterval is 0. Its JSON form has the keys of
// GradScaler.state_dict.
type LossScaler struct {
	Scale          float32 `json:"scale"`
	GrowthFactor   float32 `json:"growth_factor"`
	BackoffFactor  float32 `json:"backoff_factor"`
	GrowthInterval int     `json:"growth_interval"`
	GrowthTracker  int     `json:"_growth_tracker"` // finite steps since the scale last changed
}

// NewDynamicLossScaler returns a scaler with GradScaler's defaults: 2^16, doubled after 2000 finite steps in a row,
// halved after a step that is not finite. Source: pytorch, torch/amp/grad_scaler.py.
func NewDynamicLossScaler() *LossScaler {
	return &LossScaler{Scale: 1 << 16, GrowthFactor: 2, BackoffFactor: 0.5, GrowthInterval: 2000}
}

// NewStaticLossScaler returns a scaler that never changes.
func NewStaticLossScaler(scale float32) *LossScaler { return &LossScaler{Scale: scale} }

// Inverse returns the factor that unscales gradients: 1/Scale in float64, rounded to float32, as
// GradScaler.unscale_ computes it.
func (s *LossScaler) Inverse() float32 { return float32(1 / float64(s.Scale)) }

// Update adjusts the scale after a step; finite says whether all gradients were finite. It follows PyTorch's
// _amp_update_scale_: the scale does not grow beyond float32's range, and may shrink without limit.
func (s *LossScaler) Update(finite bool) {
	if s.GrowthInterval == 0 {
		return
	}
	if !finite {
		s.Scale *= s.BackoffFactor
		s.GrowthTracker = 0
		return
	}
	s.GrowthTracker++
	if s.GrowthTracker < s.GrowthInterval {
		return
	}
	s.GrowthTracker = 0
	if grown := s.Scale * s.GrowthFactor; grown <= math.MaxFloat32 {
		s.Scale = grown
	}
}

// MarshalBinary returns the state as JSON, for a checkpoint.
func (s *LossScaler) MarshalBinary() ([]byte, error) { return json.Marshal(s) }

// UnmarshalBinary restores what MarshalBinary returned. An invalid state leaves the scaler as it was.
func (s *LossScaler) UnmarshalBinary(data []byte) error {
	var read LossScaler
	if err := json.Unmarshal(data, &read); err != nil {
		return fmt.Errorf("loss scaler state: %w", err)
	}
	if !(read.Scale > 0) || math.IsInf(float64(read.Scale), 0) {
		return fmt.Errorf("loss scaler state: scale %v is not a positive finite number: %w", read.Scale, ErrInvalid)
	}
	if read.GrowthInterval < 0 || read.GrowthTracker < 0 {
		return fmt.Errorf("loss scaler state: growth_interval %d and _growth_tracker %d must not be negative: %w",
			read.GrowthInterval, read.GrowthTracker, ErrInvalid)
	}
	if read.GrowthInterval > 0 && (!(read.GrowthFactor > 1) || !(read.BackoffFactor > 0 && read.BackoffFactor < 1)) {
		return fmt.Errorf("loss scaler state: growth_factor %v and backoff_factor %v, want above 1 and between 0 and 1: %w",
			read.GrowthFactor, read.BackoffFactor, ErrInvalid)
	}
	*s = read
	return nil
}

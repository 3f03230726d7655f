package shrink

import (
	"harness.invalid/core/bert"
	"harness.invalid/core/recipe"
)

// Margins of small recipes, in nats: at most a sixth of what is learned in 400 steps of 64 sequences, as in the recipe
// quick. docs/recipes.md has what was measured.
const (
	maskedLMMargin = 0.1  // of 0.85 and 0.83, two seeds in FP32: the entropy of the tokens less the masked LM loss
	answerMargin   = 0.01 // that of quick's probe, for about six times its rate and steps; not measured
)

// judge replaces the rule of comparisons, whose margins are for the full size. Data that files bring have margins of
// their own, which stay.
func (w *shrinker) judge() {
	v := recipe.Verdict{Alpha: recipe.SequentialAlpha, Plan: recipe.Plan{MaxSeeds: recipe.DefaultMaxSeeds}}
	switch last := w.Phases[len(w.Phases)-1]; {
	case last.Task == bert.Pretraining:
		v.Primary, v.Margins = "masked_lm_loss", map[string]float64{"masked_lm_loss": maskedLMMargin}
	case w.generates():
		v.Primary, v.Margins = "answer_nll", map[string]float64{"answer_nll": answerMargin}
	default:
		return
	}
	w.Verdict = v
}

package train

import "harness.invalid/core/recipe"

// Sizes are how long a phase is and how many sequences an evaluation of it has, on this data.
func (d *Data) Sizes(r *recipe.Recipe, p *recipe.Phase, seed uint64) (steps, evaluated int, err error) {
	s, err := d.open(r, p, seed)
	if err != nil {
		return 0, 0, err
	}
	return p.TotalSteps(s.sequences()), s.evaluated(), nil
}

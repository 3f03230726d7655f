package results

// Quantised is what a step records of an operand of matrix products: what a number format did to it, over all
// micro-batches and replicas. Shares are those of the operand's values.
type Quantised struct {
	Operator  string  `json:"operator"` // under the name of Hugging Face's module
	Operand   string  `json:"operand"`  // such as forward.weight, as a policy names it
	Format    string  `json:"format"`
	Values    int64   `json:"values"`
	Saturated float64 `json:"saturated"` // share that was too large, infinite or not a number
	Flushed   float64 `json:"flushed"`   // share that became zero
	Subnormal float64 `json:"subnormal"` // share that kept fewer digits than the format has
	Largest   float64 `json:"largest"`   // magnitude before; -1: not finite
	Scale     float64 `json:"scale"`     // that values were multiplied by, the least of the step; 0: each block has its own
	RelError  float64 `json:"rel_error"` // norm of the error over the norm of the values
	Cosine    float64 `json:"cosine"`    // of the angle between values before and after
}

// The shares of an operand's values above which a number format is doubted: too narrow in range, or in digits.
const (
	MostSaturated = 0.01
	MostFlushed   = 0.25
)

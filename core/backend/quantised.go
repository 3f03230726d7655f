package backend

// Quantised says what a number format did to an operand of matrix products in a step, over all micro-batches and
// replicas. Shares are those of the operand's values.
type Quantised struct {
	Operator  string // under the name of Hugging Face's module
	Operand   string // such as forward.weight, as a policy names it
	Format    string
	Values    int64
	Saturated float64 // share that was too large, infinite or not a number
	Flushed   float64 // share that became zero
	Subnormal float64 // share that kept fewer digits than the format has
	Largest   float64 // magnitude before; -1: not finite
	Scale     float64 // that values were multiplied by, the least of the step; 0: each block has its own
	RelError  float64 // norm of the error over the norm of the values
	Cosine    float64 // of the angle between values before and after
}

// InspectOption is the option of a backend that asks for StepResult.Quantised: every so many steps, 0: never.
const InspectOption = "inspect_formats"

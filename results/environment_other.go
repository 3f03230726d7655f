//go:build !linux && !darwin

package results

import "os"

// LoadAverage is the system's load over 1, 5 and 15 minutes; nil where it does not say.
func LoadAverage() []float64 { return nil }

// cpuModel is what Windows sets for every process.
func cpuModel() string { return os.Getenv("PROCESSOR_IDENTIFIER") }

// memoryBytes is not known.
func memoryBytes() int64 { return 0 }

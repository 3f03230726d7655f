// Package results keeps what was measured: the folder of a run, the statistics over runs, and the verdict of a comparison.
package results

// Package torture breaks runs, and expects that nothing is lost. It has tests alone.
//
// A trial trains a tiny model, injects a fault, resumes without faults, and compares every bit that a run leaves with
// those of a run that nobody disturbed. The faults:
//
//	operations   the n-th write, flush, rename, removal, allocation or mapping fails, for all n
//	calls        plugins die at the n-th call, for all n
//	power        the power is cut before the n-th operation: what was not flushed is lost, torn or in another order
//	kills        SIGKILL for the host, the backend and the optimizer, real processes, at every named point
//	hostile      plugins that do what no plugin may
//
// The short form is part of go test ./... . The long one goes on for a time, and ends with the table of
// docs/reliability.md:
//
//	go test ./harness/torture -torture.for 10m -timeout 0 -v
//
// A soak trains for a time and samples memory, files and processes; see docs/reliability.md:
//
//	go test ./harness/torture -run TestSoak -soak.for 10m -soak.out DIR -timeout 0 -v
package torture

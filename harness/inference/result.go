package inference

import (
	"sort"
	"time"
)

// Result is what a run shows. Times are measured.
type Result struct {
	Scenario         Scenario `json:"scenario"`
	SamplesPerSecond float64  `json:"samples_per_second"`
	Latency          Latency  `json:"latency_ms"` // of a query; server: since it was to come; offline: since the start
	// Valid: the run has the duration and the queries that it was to have, and early stopping accepts it.
	Valid bool `json:"valid"`
	// Why the run is not valid, and what else to know about it, parted by semicolons.
	Why string `json:"why"`

	Queries int     `json:"queries"`
	Samples int     `json:"samples"`
	Seconds float64 `json:"seconds"`
	Target  *Target `json:"target,omitempty"`
}

// Latency are the mean and percentiles in milliseconds. A percentile p of n is the one with the index n·p of those in
// ascending order, as in results.cc.
type Latency struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P95  float64 `json:"p95"`
	P97  float64 `json:"p97"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p99.9"`
}

// Target is what the scenario is judged by.
type Target struct {
	Percentile float64 `json:"percentile"`
	// EstimateMS is early stopping's estimate of the percentile, for single-stream and multi-stream.
	EstimateMS float64 `json:"estimate_ms,omitempty"`
	// BoundMS is the bound of server, Over the queries above it, and QueriesPerSecond the rate at which they came.
	BoundMS          float64 `json:"bound_ms,omitempty"`
	Over             int     `json:"over,omitempty"`
	QueriesPerSecond float64 `json:"queries_per_second,omitempty"`
}

// latencies are the percentiles of sorted latencies.
func latencies(sorted []time.Duration) Latency {
	var sum time.Duration
	for _, d := range sorted {
		sum += d
	}
	at := func(p float64) float64 { return ms(sorted[min(len(sorted)-1, int(float64(len(sorted))*p))]) }
	return Latency{
		Mean: ms(sum) / float64(len(sorted)), P50: at(0.5), P90: at(0.9), P95: at(0.95), P97: at(0.97), P99: at(0.99), P999: at(0.999),
	}
}

// sortSearch is how many of sorted latencies are at most some milliseconds.
func sortSearch(sorted []time.Duration, limit float64) int {
	return sort.Search(len(sorted), func(i int) bool { return ms(sorted[i]) > limit })
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

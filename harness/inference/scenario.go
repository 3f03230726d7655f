// Package inference measures how fast a model answers, by the rules of MLPerf's load generator.
//
//	Settings -> Run (over a System) -> Result
//
// A scenario says when queries come: the next one after an answer (single-stream, multi-stream), at times of a Poisson
// process (server), or all at once (offline). The draws are the same on every
// machine; they have the load generator's seeds, but are not its own, which come from C++'s library.
//
// Source: mlcommons/inference, loadgen: loadgen.cc (GenerateQueries), results.cc (PerformanceSummary),
// early_stopping.cc, mlperf.conf.
package inference

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"harness.invalid/core/spelling"
)

// Scenario says when queries come.
type Scenario string

// The scenarios.
const (
	SingleStream Scenario = "single-stream" // one sample after the other
	MultiStream  Scenario = "multi-stream"  // eight samples after each other eight
	Server       Scenario = "server"        // single samples at random times, each within a bound
	Offline      Scenario = "offline"       // all samples at once
)

// Scenarios are their names.
var Scenarios = []string{string(SingleStream), string(MultiStream), string(Server), string(Offline)}

// The rules' numbers. Source: mlcommons/inference, loadgen/mlperf.conf.
const (
	RulesDuration = 10 * time.Minute       // *.min_duration
	perQuery      = 8                      // MultiStream.samples_per_query
	offlineCount  = 10833                  // bert.Offline.min_query_count: the windows of SQuAD's development set
	serverBound   = 130 * time.Millisecond // bert.Server.target_latency
	confidence    = 0.99                   // results.cc, EarlyStopping

	sampleSeed   = 2747215439041700203  // sample_index_rng_seed
	scheduleSeed = 16159082839903944936 // schedule_rng_seed
)

// Settings of a run.
type Settings struct {
	Scenario Scenario
	// Duration is the shortest run. Above Limit a run ends whatever is missing; 0: four times the duration.
	Duration, Limit time.Duration
	// Samples are those to choose from.
	Samples int
	// Batch is the largest number of samples that the system answers at once.
	Batch int
	// PerQuery is the number of samples of a query of multi-stream; 0: eight.
	PerQuery int
	// QPS is the mean rate at which queries come, for server.
	QPS float64
	// Bound is the latency within which 99% of the queries have to be answered, for server; 0: 130 ms.
	Bound time.Duration
}

// percentile is the one that a scenario is judged by.
func (s Settings) percentile() float64 {
	if s.Scenario == SingleStream || s.Scenario == Offline {
		return 0.90
	}
	return 0.99
}

// samplesPerQuery is the number of samples that come together.
func (s Settings) samplesPerQuery() int {
	switch {
	case s.Scenario != MultiStream:
		return 1
	case s.PerQuery > 0:
		return s.PerQuery
	}
	return perQuery
}

// fill sets defaults, and reports what makes no run.
func (s *Settings) fill() error {
	if _, err := ParseScenario(string(s.Scenario)); err != nil {
		return err
	}
	if s.Limit == 0 {
		s.Limit = 4 * s.Duration
	}
	if s.Bound == 0 {
		s.Bound = serverBound
	}
	switch {
	case s.Samples < 1:
		return errors.New("there are no samples")
	case s.Batch < 1:
		return fmt.Errorf("batch is %d, want at least 1", s.Batch)
	case s.Duration <= 0:
		return fmt.Errorf("duration is %s, want more than 0", s.Duration)
	case s.Limit < s.Duration:
		return fmt.Errorf("limit is %s, want at least the duration, %s", s.Limit, s.Duration)
	case s.Scenario == Server && s.QPS <= 0:
		return fmt.Errorf("queries a second are %g, want more than 0", s.QPS)
	}
	return nil
}

// ParseScenario finds a scenario by its name.
func ParseScenario(name string) (Scenario, error) {
	for _, s := range Scenarios {
		if s == name {
			return Scenario(s), nil
		}
	}
	return "", fmt.Errorf("no scenario is named %q%s (known: %s)", name, spelling.Hint(name, Scenarios), strings.Join(Scenarios, ", "))
}

package verdict

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"harness.invalid/core/recipe"
	"harness.invalid/results"
	"harness.invalid/results/statistics"
)

// Comparison compares runs of one recipe on one data set.
type Comparison struct {
	Recipe      string `json:"recipe"`
	Fingerprint string `json:"fingerprint"`
	DataDigest  string `json:"data_digest"`
	// Start is the digest of the model that the runs start from; empty: they start from initial values.
	Start string `json:"start,omitempty"`
	// Alpha is the error rate that verdicts keep to, Primary the metric that the comparison is about; both from the
	// recipe.
	Alpha   float64 `json:"alpha"`
	Primary string  `json:"primary,omitempty"`
	// Plan is the recipe's, too.
	Plan Plan `json:"plan"`
	// Phases, with what they measure, are in the order of the recipe; Arms in the order of the runs. The first arm
	// is the baseline.
	Phases      []MeasuredPhase `json:"phases"`
	Arms        []ArmSummary    `json:"arms"`
	Runs        []RunSummary    `json:"runs"` // by arm, then by seed
	Comparisons []Pairing       `json:"comparisons"`
	// Curves are means and standard deviations of the arms along the way.
	Curves []Band `json:"curves,omitempty"`
	// FullSize are the modelled times of the recipe's counterpart on the machines of the arms' backends.
	FullSize []FullSize `json:"full_size,omitempty"`
	// Notes are doubts about the comparison as a whole.
	Notes []string `json:"notes,omitempty"`

	machines map[runKey][]string // that runs were trained on, in words

	places placesOfRuns
	visits int // of Runs one by one: must grow with their number and no faster
}

// ArmSummary is an arm over its seeds.
type ArmSummary struct {
	results.Arm
	Precision string                       `json:"precision"`
	Seeds     []uint64                     `json:"seeds"`   // of complete runs
	Metrics   map[string]statistics.Sample `json:"metrics"` // PHASE.NAME
	Times     []PhaseTimes                 `json:"times,omitempty"`
}

// RunSummary is one run of a comparison.
type RunSummary struct {
	results.Arm
	Precision       string                `json:"precision"`
	Seed            uint64                `json:"seed"`
	Status          results.Status        `json:"status"`
	Error           string                `json:"error,omitempty"`
	Metrics         results.Metrics       `json:"metrics"` // NAME of the last phase that measures it, and PHASE.NAME
	MeasuredSeconds map[string]float64    `json:"measured_seconds"`
	Steps           int                   `json:"steps"`
	Skipped         int                   `json:"skipped"`
	Phases          []results.PhaseResult `json:"phases"`
	BatchDigest     string                `json:"batch_digest"`
	Notes           []string              `json:"notes,omitempty"`
	Dir             string                `json:"dir,omitempty"`
}

// Complete reports whether the run came to its end.
func (r RunSummary) Complete() bool { return r.Status == results.Complete }

// Phase finds a phase's result by name.
func (r RunSummary) Phase(name string) (results.PhaseResult, bool) {
	i := slices.IndexFunc(r.Phases, func(p results.PhaseResult) bool { return p.Name == name })
	if i < 0 {
		return results.PhaseResult{}, false
	}
	return r.Phases[i], true
}

// RunsOf lists the complete runs of an arm by seed, without those that serve the A/A comparison alone.
func (c *Comparison) RunsOf(a results.Arm) []RunSummary {
	var runs []RunSummary
	c.visits += len(c.Runs)
	for i := range c.Runs {
		if r := &c.Runs[i]; r.Arm == a && r.Complete() && !c.InNoise(a, r.Seed) {
			runs = append(runs, *r)
		}
	}
	return runs
}

// Ended lists the runs of an arm that are complete or failed, by seed.
func (c *Comparison) Ended(a results.Arm) []RunSummary {
	var runs []RunSummary
	c.visits += len(c.Runs)
	for i := range c.Runs {
		if r := &c.Runs[i]; r.Arm == a && (r.Status == results.Complete || r.Status == results.Failed) {
			runs = append(runs, *r)
		}
	}
	return runs
}

// Compare is CompareBy with the margins of the first run's recipe.
func Compare(runs []*results.Run) (*Comparison, error) {
	if len(runs) == 0 {
		return nil, fmt.Errorf("%w: there are none", ErrIncomparable)
	}
	return CompareBy(runs, runs[0].Recipe.Verdict)
}

// CompareBy pairs each arm with the first one by seed, and judges every metric that has a margin. Runs that go on,
// or were stopped, are listed and not paired. The error is ErrIncomparable, with what differs, if the runs are not
// of one recipe and data, or if two are of the same arm and seed.
func CompareBy(runs []*results.Run, verdict recipe.Verdict) (*Comparison, error) {
	c, err := decideRuns(runs, verdict)
	if err != nil {
		return nil, err
	}
	c.noteNoise()
	c.checkBatches()
	c.notePlans(runs)
	c.noteStarts(runs)
	if err := c.checkMachines(runs); err != nil {
		return nil, err
	}
	if err := c.checkOrigins(runs); err != nil {
		return nil, err
	}
	return c, c.follow(runs)
}

// Verdicts is Compare without curves, times and notes: what deciding on further seeds takes.
func Verdicts(runs []*results.Run) (*Comparison, error) {
	if len(runs) == 0 {
		return nil, fmt.Errorf("%w: there are none", ErrIncomparable)
	}
	return decideRuns(runs, runs[0].Recipe.Verdict)
}

// decideRuns lists the runs by arm and gives the verdicts.
func decideRuns(runs []*results.Run, verdict recipe.Verdict) (*Comparison, error) {
	if len(runs) == 0 {
		return nil, fmt.Errorf("%w: there are none", ErrIncomparable)
	}
	first := runs[0]
	plan, err := PlanOf(verdict)
	if err != nil {
		return nil, err
	}
	c := &Comparison{
		Recipe: first.Identity.Recipe, Fingerprint: first.Fingerprint, DataDigest: first.DataDigest, Start: first.Start,
		Alpha: verdict.Alpha, Primary: verdict.Primary, Plan: plan, Phases: measuredPhases(first.Recipe),
		Runs: []RunSummary{}, Comparisons: []Pairing{},
	}
	byArm := make(map[results.Arm]*ArmRuns)
	var arms []results.Arm
	for _, r := range runs {
		if err := comparable(first, r); err != nil {
			return nil, err
		}
		if byArm[r.Arm()] == nil {
			byArm[r.Arm()] = &ArmRuns{}
			arms = append(arms, r.Arm())
		}
		if err := byArm[r.Arm()].Add(r); err != nil {
			return nil, err
		}
	}
	for _, a := range arms {
		slices.SortFunc(byArm[a].Runs, func(x, y *results.Run) int { return cmp.Compare(x.Seed, y.Seed) })
		c.addRuns(a, byArm[a].Runs)
	}
	for _, a := range arms {
		c.addArm(a, byArm[a].Runs[0].Precision)
	}
	for _, a := range arms[1:] {
		c.pair(arms[0], a, verdict)
	}
	return c, nil
}

// WriteJSON writes the comparison for other programs.
func (c *Comparison) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(c)
}

// addRuns lists the runs of an arm, and notes those that are not complete.
func (c *Comparison) addRuns(a results.Arm, runs []*results.Run) {
	for _, r := range runs {
		sum := summaryOf(a, r)
		c.Runs = append(c.Runs, sum)
		if sum.Complete() {
			continue
		}
		note := fmt.Sprintf("%s, seed %d: %s", a, r.Seed, sum.Status)
		if sum.Error != "" {
			note += ": " + sum.Error
		}
		c.Notes = append(c.Notes, note)
	}
}

func summaryOf(a results.Arm, r *results.Run) RunSummary {
	sum := RunSummary{
		Arm: a, Precision: r.Precision, Seed: r.Seed, Status: results.Unfinished, Dir: r.Dir,
		Metrics: results.Metrics{}, MeasuredSeconds: map[string]float64{}, Phases: []results.PhaseResult{},
	}
	if res := r.Result; res != nil {
		sum.Status, sum.Error, sum.Steps, sum.Skipped = res.Status, res.Error, res.Steps, res.Skipped
		sum.BatchDigest, sum.Notes = res.BatchDigest, res.Notes
		maps.Copy(sum.Metrics, res.Metrics)
		maps.Copy(sum.MeasuredSeconds, res.MeasuredSeconds)
		sum.Phases = append(sum.Phases, res.Phases...)
	}
	return sum
}

// addArm summarizes the complete runs of an arm, once the runs of all arms are listed.
func (c *Comparison) addArm(a results.Arm, precision string) {
	s := ArmSummary{Arm: a, Precision: precision, Seeds: []uint64{}, Metrics: map[string]statistics.Sample{}}
	values := make(map[string][]float64)
	for _, r := range c.RunsOf(a) {
		s.Seeds = append(s.Seeds, r.Seed)
		for name, v := range r.phaseMetrics() {
			values[name] = append(values[name], v)
		}
	}
	for name, v := range values {
		s.Metrics[name] = statistics.NewSampleWithIntervals(v, 1-c.Alpha)
	}
	c.Arms = append(c.Arms, s)
}

// phaseMetrics are the metrics of all phases by PHASE.NAME.
func (r RunSummary) phaseMetrics() results.Metrics {
	all := results.Metrics{}
	for _, p := range r.Phases {
		for name, v := range p.Metrics {
			all[p.Name+"."+name] = v
		}
	}
	return all
}

// note adds a note, once.
func (c *Comparison) note(text string) {
	if !slices.Contains(c.Notes, text) {
		c.Notes = append(c.Notes, text)
	}
}

// checkBatches notes seeds with which the arms took different batches. The same recipe and data rule that out.
func (c *Comparison) checkBatches() {
	digests := make(map[uint64]map[string][]string)
	for _, r := range c.Runs {
		if !r.Complete() {
			continue
		}
		if digests[r.Seed] == nil {
			digests[r.Seed] = map[string][]string{}
		}
		digests[r.Seed][r.BatchDigest] = append(digests[r.Seed][r.BatchDigest], r.Arm.String())
	}
	for _, seed := range slices.Sorted(maps.Keys(digests)) {
		if len(digests[seed]) < 2 {
			continue
		}
		var groups []string
		for _, digest := range slices.Sorted(maps.Keys(digests[seed])) {
			groups = append(groups, fmt.Sprintf("%s %.12s", strings.Join(digests[seed][digest], ", "), digest))
		}
		c.Notes = append(c.Notes, fmt.Sprintf("seed %d: the arms took different batches (digests: %s), "+
			"so differences are not the backends' alone", seed, strings.Join(groups, "; ")))
	}
}

// checkMachines notes runs on machines that differ in what speed depends on. A run that went on elsewhere counts for all
// of its machines.
func (c *Comparison) checkMachines(runs []*results.Run) error {
	machines := make(map[string]bool)
	c.machines = map[runKey][]string{}
	for _, r := range runs {
		segments, err := r.Segments()
		if err != nil {
			return err
		}
		for _, s := range segments {
			e := s.Environment
			name := fmt.Sprintf("%s with %d CPUs, GOMAXPROCS %d", e.CPU, e.CPUs, e.Threads)
			machines[name] = true
			if at := (runKey{r.Arm(), r.Seed}); !slices.Contains(c.machines[at], name) {
				c.machines[at] = append(c.machines[at], name)
			}
		}
	}
	if len(machines) > 1 {
		c.Notes = append(c.Notes, "measured times come from different machines, say nothing about the backends and are not tested against "+
			"each other (in one allocation they would be: --one-allocation): "+strings.Join(slices.Sorted(maps.Keys(machines)), "; "))
	}
	return nil
}

// unlike reports whether the complete runs of two arms were trained on machines that differ in what speed depends on.
func (c *Comparison) unlike(a, b results.Arm) bool {
	first := ""
	for _, r := range slices.Concat(c.RunsOf(a), c.RunsOf(b)) {
		for _, m := range c.machines[runKey{r.Arm, r.Seed}] {
			if first == "" {
				first = m
			}
			if m != first {
				return true
			}
		}
	}
	return false
}

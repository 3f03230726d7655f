package export_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"harness.invalid/core/durable"
	"harness.invalid/core/plugin/python"
	"harness.invalid/harness/export"
	"harness.invalid/harness/series"
	"harness.invalid/harness/series/seriestest"
	"harness.invalid/results/verdict"
)

// pythonSeen is what testdata/results.py prints.
type pythonSeen struct {
	Values, Table []map[string]any
	Runs          []struct {
		Run, Status string
		F1          float64
	}
	Curves      []string
	Steps       []int
	Comparisons []struct {
		Arm, Phase, Metric, Verdict string
		Pairs                       int
		Difference                  *float64
	}
	Paired []struct {
		Arm, Phase, Metric string
		Pairs              int
		Difference         float64
	}
	Wrong string
}

// readByPython runs testdata/results.py.
func readByPython(t *testing.T, paths ...string) (seen pythonSeen) {
	t.Helper()
	interpreter, err := python.Interpreter(t.Context(), []python.Module{{Name: "pandas", Debian: "python3-pandas", PyPI: "pandas"}})
	if errors.Is(err, python.ErrMissing) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), interpreter, append([]string{filepath.Join("testdata", "results.py")}, paths...)...)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join("..", "..", "core", "plugin", "python"), "PYTHONDONTWRITEBYTECODE=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, &seen); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return seen
}

// TestPythonResults: harness_results, the module for notebooks, has the same values as the Parquet table and the same
// differences as the report. Where pandas can read Parquet, it reads the table alike.
func TestPythonResults(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Python with pandas")
	}
	dir := t.TempDir()
	runs := filepath.Join(dir, "runs")
	modelled := gpu
	modelled.ModelledSeconds = 0.01
	records := seriestest.Write(t, runs, 2, ipu, modelled)
	table := filepath.Join(dir, "runs.parquet")
	format, err := export.Named("parquet")
	if err != nil {
		t.Fatal(err)
	}
	if err := format.To(t.Context(), table, records); err != nil {
		t.Fatal(err)
	}
	c, err := verdict.Compare(series.Runs(records))
	if err != nil {
		t.Fatal(err)
	}
	report := filepath.Join(dir, "report.json")
	if err := durable.WriteFile(report, c.WriteJSON); err != nil {
		t.Fatal(err)
	}
	seen := readByPython(t, runs, report, table)
	rows, err := parquet.ReadFile[export.Row](table)
	if err != nil {
		t.Fatal(err)
	}
	want := plain(rows)
	if d := differ(want, keyed(seen.Values)); d != "" || len(want) < 1000 {
		t.Errorf("%d values; in Parquet, and of the folders: %s", len(want), d)
	}
	if seen.Table == nil {
		t.Log("pandas has neither pyarrow nor fastparquet: the Parquet table was not read by it")
	} else if d := differ(want, keyed(seen.Table)); d != "" {
		t.Errorf("values in Parquet, read by Go and by Python: %s", d)
	}
	if len(seen.Runs) != 4 || seen.Runs[0].Status != "complete" || seen.Runs[0].F1 == 0 {
		t.Errorf("runs: %+v", seen.Runs)
	}
	if len(seen.Steps) != 70 || len(seen.Curves) != 4 || seen.Curves[0] != gpu.Backend+"/adamw 1" {
		t.Errorf("curves %q over %d steps", seen.Curves, len(seen.Steps))
	}
	if !strings.Contains(seen.Wrong, "no run has trained values named 'lost'; there are: ") {
		t.Errorf("a name that is not there: %s", seen.Wrong)
	}
	i := 0
	for _, m := range c.Comparisons[0].Metrics {
		got := seen.Comparisons[i]
		i++
		if got.Phase != m.Phase || got.Metric != m.Metric || got.Verdict != string(m.Verdict) || got.Pairs != 2 ||
			!number(got.Difference, m.Difference) {
			t.Errorf("%+v, want %s %s: %v %s", got, m.Phase, m.Metric, m.Difference, m.Verdict)
		}
		for _, p := range seen.Paired {
			if p.Arm == "ipu/adamw" && p.Phase == m.Phase && p.Metric == m.Metric && math.Abs(p.Difference+float64(m.Difference)) > 1e-9 {
				t.Errorf("%s %s: a difference of %g from the records, want %g", p.Phase, p.Metric, p.Difference, -float64(m.Difference))
			}
		}
	}
	if len(seen.Paired) == 0 {
		t.Error("there are no paired differences")
	}
}

// number reports whether a value of Python is one of Go, whose NaN is null there.
func number[F ~float64](p *float64, v F) bool {
	return p == nil && math.IsNaN(float64(v)) || p != nil && *p == float64(v)
}

// plain turns rows into what Python prints of them.
func plain(rows []export.Row) map[string]map[string]any {
	number := func(v float64) any {
		if math.IsNaN(v) {
			return nil
		}
		return v
	}
	var all []map[string]any
	for _, r := range rows {
		all = append(all, map[string]any{
			"run": r.Run, "recipe": r.Recipe, "fingerprint": r.Fingerprint, "data_digest": r.DataDigest, "backend": r.Backend,
			"precision": r.Precision, "optimizer": r.Optimizer, "seed": float64(r.Seed), "phase": r.Phase, "kind": r.Kind,
			"step": float64(r.Step), "total_step": float64(r.TotalStep), "samples": float64(r.Samples), "name": r.Name,
			"measured_seconds": number(r.Measured), "modelled_seconds": number(r.Modelled), "value": number(r.Value),
		})
	}
	return keyed(all)
}

// keyed are rows by what tells them apart.
func keyed(rows []map[string]any) map[string]map[string]any {
	all := map[string]map[string]any{}
	for _, r := range rows {
		all[fmt.Sprint(r["run"], r["total_step"], r["kind"], r["name"])] = r
	}
	return all
}

// differ names a row that only one has, or a field that is not the same.
func differ(a, b map[string]map[string]any) string {
	if len(a) != len(b) {
		return fmt.Sprintf("%d and %d rows", len(a), len(b))
	}
	for key, row := range a {
		for field, v := range row {
			w := b[key][field]
			x, isNumber := v.(float64)
			y, isToo := w.(float64)
			if v != w && !(isNumber && isToo && math.Abs(x-y) <= 1e-12*math.Abs(x)) { // times are sums
				return fmt.Sprintf("%s: %s is %v and %v", key, field, v, w)
			}
		}
	}
	return ""
}

//go:build unix

package torture

import (
	"bytes"
	"encoding/csv"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"harness.invalid/core/durable"
	"harness.invalid/harness/experiment"
)

var (
	soak    = flag.Duration("soak.for", 0, "how long to train one comparison after the other in one process; 0: not at all")
	soakOut = flag.String("soak.out", "", "folder for soak.csv and soak.svg")
)

// sample is what the process and its plugins take.
type sample struct {
	seconds, comparisons, hostKB, goroutines, hostFiles, processes, pluginKB, pluginFiles, shared, temporary int
}

var sampleNames = []string{"seconds", "comparisons", "host_rss_kb", "goroutines", "host_files", "processes", "plugin_rss_kb",
	"plugin_files", "dev_shm_files", "temporary_files"}

func (s sample) values() []int {
	return []int{s.seconds, s.comparisons, s.hostKB, s.goroutines, s.hostFiles, s.processes, s.pluginKB, s.pluginFiles, s.shared, s.temporary}
}

// take samples this process, those that it started, and what lies in the folders that they use.
func take(temp string) sample {
	s := sample{goroutines: runtime.NumGoroutine()}
	s.hostKB, s.hostFiles = footprint("/proc/self")
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		_, after, _ := bytes.Cut(text, []byte(") "))
		if f := strings.Fields(string(after)); len(f) > 1 && f[1] == strconv.Itoa(os.Getpid()) {
			kb, files := footprint(filepath.Dir(path))
			s.processes, s.pluginKB, s.pluginFiles = s.processes+1, s.pluginKB+kb, s.pluginFiles+files
		}
	}
	for dir, n := range map[string]*int{"/dev/shm": &s.shared, temp: &s.temporary} {
		list, _ := os.ReadDir(dir)
		*n = len(list)
	}
	return s
}

// footprint is the resident memory of a process and the number of its open files.
func footprint(proc string) (kb, files int) {
	text, _ := os.ReadFile(filepath.Join(proc, "status"))
	_, after, _ := strings.Cut(string(text), "VmRSS:")
	_, _ = fmt.Sscan(after, &kb)
	list, _ := os.ReadDir(filepath.Join(proc, "fd"))
	return kb, len(list)
}

// TestSoak trains comparisons one after the other in one process. Between them no process of a plugin, no temporary file
// and no shared memory is left, and memory, open files and goroutines do not grow.
func TestSoak(t *testing.T) {
	if *soak == 0 || runtime.GOOS != "linux" {
		t.Skip("-soak.for says how long")
	}
	debug.SetGCPercent(100) // as the program has it
	temp, dir := filepath.Join(scratch, "temp"), filepath.Join(scratch, "soak")
	if err := os.MkdirAll(temp, 0o777); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", temp)
	r, err := experiment.Load(experiment.Source{Recipe: "../testdata/mini.yaml", Set: tiny})
	if err != nil {
		t.Fatal(err)
	}
	arms, err := experiment.Arms([]string{"gpu-ref", "ipu"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var samples []sample
	for began := time.Now(); time.Since(began) < *soak; {
		o, err := experiment.Run(background, experiment.Experiment{
			Recipe: r, Arms: arms, FirstSeed: 1, Seeds: 2, Dir: dir, Observe: func(experiment.Event) {},
		})
		if err == nil {
			_, err = o.Compare()
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		s := take(temp)
		s.seconds, s.comparisons = int(time.Since(began).Seconds()), len(samples)+1
		samples = append(samples, s)
	}
	if err := save(samples); err != nil {
		t.Error(err)
	}
	flat(t, samples)
}

// flat compares the medians of the second and the last fifth of the samples; in the first, caches fill.
func flat(t *testing.T, samples []sample) {
	if len(samples) < 20 {
		t.Fatalf("%d comparisons, want at least 20", len(samples))
	}
	fifth := len(samples) / 5
	for i, name := range sampleNames[2:] {
		median := func(some []sample) int {
			var v []int
			for _, s := range some {
				v = append(v, s.values()[i+2])
			}
			slices.Sort(v)
			return v[len(v)/2]
		}
		early, late := median(samples[fifth:2*fifth]), median(samples[len(samples)-fifth:])
		t.Logf("%-16s %7d, at the end %7d", name, early, late)
		// Memory: what a garbage collector leaves lying differs from moment to moment.
		if allowed := early; strings.HasSuffix(name, "_kb") && late > allowed+allowed/10 || !strings.HasSuffix(name, "_kb") && late > allowed {
			t.Errorf("%s grows from %d to %d over %d comparisons", name, early, late, len(samples))
		}
	}
}

// save writes the samples as CSV and draws the memory of the host.
func save(samples []sample) error {
	if *soakOut == "" {
		return nil
	}
	var text bytes.Buffer
	w := csv.NewWriter(&text)
	rows := [][]string{sampleNames}
	line := plotter.XYs{}
	for _, s := range samples {
		var row []string
		for _, v := range s.values() {
			row = append(row, strconv.Itoa(v))
		}
		rows = append(rows, row)
		line = append(line, plotter.XY{X: float64(s.seconds) / 60, Y: float64(s.hostKB) / 1024})
	}
	if err := w.WriteAll(rows); err != nil {
		return err
	}
	if err := durable.MkdirAll(*soakOut); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(*soakOut, "soak.csv"), text.Bytes(), 0o666); err != nil {
		return err
	}
	p := plot.New()
	p.Title.Text = fmt.Sprintf("One host, %d comparisons", len(samples))
	p.X.Label.Text, p.Y.Label.Text, p.Y.Min = "minutes", "resident memory of the host, MiB", 0
	drawn, err := plotter.NewLine(line)
	if err != nil {
		return err
	}
	p.Add(plotter.NewGrid(), drawn)
	return p.Save(6*vg.Inch, 3.7*vg.Inch, filepath.Join(*soakOut, "soak.svg"))
}

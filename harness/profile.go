package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"harness.invalid/core/backend"
	"harness.invalid/core/durable"
)

func newProfile() *cobra.Command {
	var e estimation
	var out, phase string
	cmd := &cobra.Command{
		Use:   "profile --recipe R --out F",
		Short: "Write the modelled program as a trace, and the memory of its devices as a picture",
		Long: `Profile models a step of a phase of a recipe, as estimate does, and writes two files: F, the devices' work over time as a trace that ui.perfetto.dev
and chrome://tracing show, and F with the ending .svg, what lies in the memory of each device. It prints the memory as a table. Nothing is trained. Of a long step the
trace has the first and the last cycles, and one slice for those between, which are alike.`,
		Example: `  harness profile --backend ipu --recipe large-phase1 --out profile.json
  harness profile --backend gpu-ref --recipe large-phase1 --system dgx-h100 --out gpu.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if out == "" {
				return withHint(errors.New("--out names no file"), "harness profile --backend ipu --recipe large-phase1 --out profile.json")
			}
			jobs, err := e.jobs()
			if err != nil {
				return err
			}
			j := jobs[0]
			if phase != "" {
				var names []string
				found := false
				for _, k := range jobs {
					if names = append(names, k.phase); k.phase == phase {
						j, found = k, true
					}
				}
				if !found {
					return fmt.Errorf("--phase is %q, want %s", phase, strings.Join(names, ", "))
				}
			}
			estimator, process, err := e.start(cmd.Context())
			if err != nil {
				return err
			}
			m, err := estimator.Estimate(cmd.Context(), j.program, j.on)
			if err := errors.Join(err, process.Close()); err != nil {
				return err
			}
			return writeProfile(cmd, out, j, &m)
		},
	}
	e.register(cmd.Flags())
	cmd.Flags().StringVar(&out, "out", "", "file for the trace; the picture lies beside it")
	cmd.Flags().StringVar(&phase, "phase", "", "phase of the recipe (default: the first)")
	return cmd
}

func writeProfile(cmd *cobra.Command, out string, j job, m *backend.Estimate) error {
	if err := os.MkdirAll(filepath.Dir(out), 0o777); err != nil {
		return err
	}
	picture := strings.TrimSuffix(out, filepath.Ext(out)) + ".svg"
	if picture == out {
		return fmt.Errorf("--out is %s, want a name for the trace, such as %s.json", out, strings.TrimSuffix(out, ".svg"))
	}
	if err := durable.WriteFile(out, func(w io.Writer) error { return json.NewEncoder(w).Encode(trace(j, m)) }); err != nil {
		return err
	}
	if err := durable.WriteFile(picture, func(w io.Writer) error { return drawMemory(w, j, m) }); err != nil {
		return err
	}
	w := cmd.OutOrStdout()
	fmt.Fprintf(w, "%s on %s, modelled: %s s a step in %d cycles of %s\n\n", j.phase, m.System, significant(m.StepSeconds), m.Pipeline.Cycles, duration(m.Pipeline.CycleSeconds))
	if err := writeMemory(w, m.Memory); err != nil {
		return err
	}
	fmt.Fprintf(w, "\ntrace: %s\npicture: %s\n", out, picture)
	return nil
}

// traceEvent is an event of Chrome's trace format. Times are microseconds. Source: Google, "Trace Event Format".
type traceEvent struct {
	Name     string         `json:"name"`
	Category string         `json:"cat,omitempty"`
	Kind     string         `json:"ph"` // X: a slice; M: a name
	Start    float64        `json:"ts"`
	Duration float64        `json:"dur,omitempty"`
	Process  int            `json:"pid"`
	Thread   int            `json:"tid"`
	Args     map[string]any `json:"args,omitempty"`
}

type traceFile struct {
	Events   []traceEvent   `json:"traceEvents"`
	Unit     string         `json:"displayTimeUnit"`
	Metadata map[string]any `json:"metadata"`
}

// cyclesShown is how many cycles of a step a trace has at each end, besides those of fill and drain.
const cyclesShown = 8

// trace lays the stages of one replica out over time.
func trace(j job, m *backend.Estimate) traceFile {
	p := &m.Pipeline
	f := traceFile{Unit: "ms", Metadata: map[string]any{
		"modelled": true, "system": m.System, "phase": j.phase, "step_seconds": m.StepSeconds, "cycles": p.Cycles, "cycle_seconds": p.CycleSeconds,
	}}
	name := func(thread int, of, text string) {
		f.Events = append(f.Events, traceEvent{Name: of, Kind: "M", Thread: thread, Args: map[string]any{"name": text}})
	}
	name(0, "process_name", fmt.Sprintf("%s on %s, one replica (modelled)", j.phase, m.System))
	for d, memory := range m.Memory {
		name(d, "thread_name", memory.Device)
	}
	update := len(m.Memory)
	name(update, "thread_name", "update")
	slice := func(thread int, text, category string, start, seconds float64, args map[string]any) {
		f.Events = append(f.Events, traceEvent{Name: text, Category: category, Kind: "X", Start: start * 1e6, Duration: seconds * 1e6, Thread: thread, Args: args})
	}
	deepest := 0
	for _, s := range p.Stages {
		deepest = max(deepest, s.Offset)
	}
	head := deepest + cyclesShown
	for c := 0; c < p.Cycles; c++ {
		start := float64(c) * p.CycleSeconds
		if left := p.Cycles - 2*head; c == head && left > 1 {
			for d := range m.Memory {
				slice(d, fmt.Sprintf("%d cycles like those before", left), "elided", start, float64(left)*p.CycleSeconds, nil)
			}
			c += left - 1
			continue
		}
		at := make([]float64, len(m.Memory)) // each device works on its stages in turn
		for i := range at {
			at[i] = start
		}
		for _, s := range p.Stages {
			micro := c - s.Offset
			if p.Sequential {
				micro = c
			}
			if micro < 0 || micro >= j.program.Accumulation || s.Device >= len(at) {
				continue
			}
			for _, part := range s.Parts {
				slice(s.Device, fmt.Sprintf("%s of %d", part.Name, micro), part.Name, at[s.Device], part.Seconds,
					map[string]any{"stage": s.Name, "micro_batch": micro, "cycle": c})
				at[s.Device] += part.Seconds
			}
			if p.Sequential {
				for i := range at {
					at[i] = at[s.Device] // the next stage waits for this one
				}
			}
		}
	}
	end := float64(p.Cycles) * p.CycleSeconds
	for _, u := range p.Update {
		slice(update, strings.ReplaceAll(u.Name, "_", " "), u.Name, end, u.Seconds, nil)
		end += u.Seconds
	}
	return f
}

// partColours are those of the parts of memory, in order: Okabe and Ito's, which people with any colour vision can tell apart.
var partColours = []string{"#0072B2", "#56B4E9", "#E69F00", "#F0E442", "#009E73", "#D55E00", "#CC79A7", "#999999"}

// drawMemory draws a bar for each device, a piece for each part, and a line where its memory ends.
func drawMemory(w io.Writer, j job, m *backend.Estimate) error {
	const left, width, bar, gap, top = 70, 700, 26, 12, 70
	most := int64(1)
	var names []string
	for _, d := range m.Memory {
		most = max(most, d.Bytes, d.Total())
	}
	if len(m.Memory) > 0 {
		for _, p := range m.Memory[0].Parts {
			names = append(names, p.Name)
		}
	}
	scale := func(b int64) float64 { return float64(b) / float64(most) * width }
	height := top + len(m.Memory)*(bar+gap) + 20
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">`+"\n", left+width+110, height)
	fmt.Fprintf(&b, `<title>Modelled memory of %s on %s</title>`+"\n", escape(j.phase), escape(m.System))
	fmt.Fprintf(&b, `<text x="10" y="20" font-size="14">Modelled memory of %s on %s, MB</text>`+"\n", escape(j.phase), escape(m.System))
	for i, name := range names {
		x := left + i*100
		fmt.Fprintf(&b, `<rect x="%d" y="36" width="12" height="12" fill="%s"/><text x="%d" y="47">%s</text>`+"\n", x, colour(i), x+17, escape(name))
	}
	for i, d := range m.Memory {
		y := top + i*(bar+gap)
		fmt.Fprintf(&b, `<text x="10" y="%d">%s</text>`+"\n", y+17, escape(d.Device))
		x := float64(left)
		for k, p := range d.Parts {
			fmt.Fprintf(&b, `<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"><title>%s: %.1f MB</title></rect>`+"\n", x, y, scale(p.Bytes), bar, colour(k), escape(p.Name), float64(p.Bytes)/1e6)
			x += scale(p.Bytes)
		}
		end := left + scale(d.Bytes)
		fmt.Fprintf(&b, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="black" stroke-width="2"/>`+"\n", end, y-3, end, y+bar+3)
		fmt.Fprintf(&b, `<text x="%.1f" y="%d">%.0f of %.0f</text>`+"\n", max(x, end)+8, y+17, float64(d.Total())/1e6, float64(d.Bytes)/1e6)
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func colour(i int) string { return partColours[i%len(partColours)] }

var xmlEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;")

func escape(text string) string { return xmlEscapes.Replace(text) }

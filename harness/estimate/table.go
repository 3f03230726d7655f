package estimate

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"harness.invalid/core/backend"
	"harness.invalid/results"
)

// WriteTable writes the results for people.
func (e *Estimation) WriteTable(w io.Writer, list []*Result) error {
	for i, m := range list {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if err := e.writePhase(w, m); err != nil {
			return err
		}
	}
	if seconds := total(list); len(list) > 1 && seconds > 0 {
		fmt.Fprintf(w, "\nwhole recipe, modelled: %s\n", Duration(seconds))
	}
	return nil
}

func (e *Estimation) writePhase(w io.Writer, m *Result) error {
	p := &m.Program
	fmt.Fprintf(w, "%s on %s, backend %s: %d layers, %d wide, %d tokens, micro-batch %d x accumulation %d x replicas %d\n\n",
		m.Phase, m.System, e.Backend, p.Model.NumHiddenLayers, p.Model.HiddenSize, p.Length, p.MicroBatch, p.Accumulation, p.Replicas)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	sure := (*results.Confidence)(m.Confidence).Of(m.SequencesPerSecond)
	fmt.Fprintf(t, "modelled sequences/s\t%s%s\n", Significant(m.SequencesPerSecond), sure)
	fmt.Fprintf(t, "modelled seconds a step\t%s\n", Significant(m.StepSeconds))
	fmt.Fprintf(t, "global batch\t%d\n", m.GlobalBatch)
	fmt.Fprintf(t, "share of peak arithmetic\t%.1f%%\n", 100*m.PeakShare)
	if m.Steps > 0 {
		fmt.Fprintf(t, "modelled time of %d steps\t%s%s\n", m.Steps, Duration(m.TotalSeconds()), sure)
	}
	if m.Length != "" {
		fmt.Fprintf(t, "length\t%s\n", m.Length)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nmodelled seconds of a step")
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, b := range m.Breakdown {
		if b.Seconds > 0 {
			share := 100 * b.Seconds / m.StepSeconds
			fmt.Fprintf(t, "  %s\t%s\t%.1f%%\n", strings.ReplaceAll(b.Name, "_", " "), Significant(b.Seconds), share)
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	if err := WriteMemory(w, m.Memory); err != nil {
		return err
	}
	if len(m.OffChip) > 0 {
		fmt.Fprintln(w)
		if err := WriteMemory(w, m.OffChip); err != nil {
			return err
		}
	}
	if err := WriteAssumptions(w, m.Assumptions); err != nil {
		return err
	}
	return writeConfidence(w, m.Confidence)
}

// writeConfidence explains in a footnote how sure the figures are.
func writeConfidence(w io.Writer, c *backend.Confidence) error {
	switch {
	case c == nil:
		_, err := fmt.Fprintf(w, "\noutside: %s\n", noConfidence)
		return err
	case !c.Inside:
		_, err := fmt.Fprintf(w, "\noutside what was ever published, so the model was not checked here: %s\n", c.Why)
		return err
	}
	_, err := fmt.Fprintf(w, "\n± is the %.0f%% interval from %s\n", 100*c.Level, c.Why)
	return err
}

// noConfidence is why the figures of some models are outside.
const noConfidence = "the model states no confidence"

// WriteAssumptions writes a footnote for each of what an estimate rests on.
func WriteAssumptions(w io.Writer, list []backend.Assumption) error {
	if len(list) > 0 {
		fmt.Fprintln(w, "\nassumptions")
	}
	for _, a := range list {
		if _, err := fmt.Fprintf(w, "  %s\n", a); err != nil {
			return err
		}
	}
	return nil
}

// WriteMemory writes a line for each device.
func WriteMemory(w io.Writer, devices []backend.DeviceMemory) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	moved := slices.ContainsFunc(devices, func(d backend.DeviceMemory) bool { return d.Moved > 0 })
	fmt.Fprint(t, "MB\thas\tneeds\t")
	if len(devices) > 0 {
		for _, p := range devices[0].Parts {
			fmt.Fprintf(t, "%s\t", p.Name)
		}
	}
	if moved {
		fmt.Fprint(t, "moved a step\t")
	}
	fmt.Fprintln(t)
	for _, d := range devices {
		fmt.Fprintf(t, "%s\t%.1f\t%.1f\t", d.Device, float64(d.Bytes)/1e6, float64(d.Total())/1e6)
		for _, p := range d.Parts {
			fmt.Fprintf(t, "%.1f\t", float64(p.Bytes)/1e6)
		}
		if moved {
			fmt.Fprintf(t, "%.1f\t", float64(d.Moved)/1e6)
		}
		if d.Total() > d.Bytes {
			fmt.Fprint(t, "does not fit\t")
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}

// Significant is a number with four digits.
func Significant(v float64) string {
	if v >= 1000 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// Duration is a time in hours, minutes or less.
func Duration(seconds float64) string {
	switch {
	case seconds >= 3600:
		return fmt.Sprintf("%.2f h", seconds/3600)
	case seconds >= 60:
		return fmt.Sprintf("%.1f min", seconds/60)
	}
	return time.Duration(seconds * float64(time.Second)).Round(time.Microsecond).String()
}

package results

import (
	"errors"
	"fmt"
	"slices"
)

// Segment is a part of a run that one process trained. A run that is resumed has several.
type Segment struct {
	After       int         `json:"after"`             // steps of the run that were done before
	Changes     []string    `json:"changes,omitempty"` // what may have changed bits since the segment before; see Changes
	Environment Environment `json:"environment"`
}

// Segment records that the run goes on in an environment after so many steps.
func (w *Writer) Segment(s Segment) error {
	path := w.Path(segmentsFile)
	n := 0
	for _, err := range readLines(w.dir, segmentsFile, -1, decodeJSON[Segment]) {
		if err != nil {
			return err
		}
		n++
	}
	a, err := openLines(path, n, "")
	if err != nil {
		return err
	}
	return errors.Join(a.cut(), a.add(s), a.file.Sync(), a.file.Close())
}

// Segments returns the parts of a run in the order of time. A part that was killed may have done steps that the next
// one repeated.
func (r *Run) Segments() ([]Segment, error) {
	all := []Segment{{Environment: r.Environment}}
	for s, err := range readLines(r.Dir, segmentsFile, -1, decodeJSON[Segment]) {
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.Title(), err)
		}
		all = append(all, s)
	}
	return all, nil
}

// Changes says in words what differs between two environments that may change bits of a run: the kernels, the program,
// and the plugins that the run uses. What either of them does not know is not compared.
func Changes(before, now Environment, uses func(Plugin) bool) []string {
	var changes []string
	say := func(what, was, is string) {
		if was != "" && is != "" && was != is {
			changes = append(changes, fmt.Sprintf("%s %s, now %s", what, was, is))
		}
	}
	say("kernels", before.Kernels, now.Kernels)
	say("program", short(before.ProgramSHA256), short(now.ProgramSHA256))
	for _, is := range now.Plugins {
		i := slices.IndexFunc(before.Plugins, func(p Plugin) bool { return p.Kind == is.Kind && p.Name == is.Name })
		if i < 0 || !uses(is) {
			continue
		}
		was := before.Plugins[i]
		if was.SHA256 == before.ProgramSHA256 && is.SHA256 == now.ProgramSHA256 {
			continue // built in: the program was compared
		}
		name := is.Kind + " " + is.Name
		if was.Version != is.Version {
			say(name, "version "+was.Version, "version "+is.Version)
		} else {
			say(name, short(was.SHA256), short(is.SHA256))
		}
	}
	return changes
}

func short(digest string) string { return digest[:min(12, len(digest))] }

package verdict

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"harness.invalid/results"
)

// checkOrigins notes what runs have in common by name and not by content: kernels, the program, or a plugin. Their bits
// may differ for that alone.
func (c *Comparison) checkOrigins(runs []*results.Run) error {
	seen := map[string]map[string]bool{}
	add := func(what, is string) {
		if is == "" {
			return
		}
		if seen[what] == nil {
			seen[what] = map[string]bool{}
		}
		seen[what][fmt.Sprintf("%.20s", is)] = true
	}
	for _, r := range runs {
		segments, err := r.Segments()
		if err != nil {
			return err
		}
		e := segments[len(segments)-1].Environment
		add("kernels", e.Kernels)
		add("the program", e.ProgramSHA256)
		for _, p := range e.Plugins {
			if p.SHA256 != e.ProgramSHA256 { // otherwise it is built in
				add(p.Kind+" "+p.Name, p.SHA256)
			}
		}
	}
	for _, what := range slices.Sorted(maps.Keys(seen)) {
		if len(seen[what]) > 1 {
			c.Notes = append(c.Notes, fmt.Sprintf("not all runs were trained with the same %s (%s): a difference may come from that",
				strings.TrimPrefix(what, "the "), strings.Join(slices.Sorted(maps.Keys(seen[what])), ", ")))
		}
	}
	return nil
}

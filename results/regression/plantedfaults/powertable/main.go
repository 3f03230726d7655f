// Powertable prints what comparisons found: for each pair of arms how many tries were called DIFFERENT, EQUIVALENT and
// INCONCLUSIVE, with mean seeds and minutes. A try that is given twice counts once.
//
//	powertable COMPARISON.json...
//
// power.sh makes the comparisons: of known faults, each in several tries with other seeds. Further rows need no runs of
// their own: an arm without options against itself, in which the runs of one try are held, unpaired, against those of the
// next.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"harness.invalid/core/bounded"
	"harness.invalid/results/verdict"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: powertable COMPARISON.json...")
		os.Exit(2)
	}
	var tries []*verdict.Comparison
	for _, name := range os.Args[1:] {
		c, err := read(name)
		if err != nil {
			fmt.Fprintln(os.Stderr, "powertable:", err)
			os.Exit(2)
		}
		tries = append(tries, c)
	}
	t := newTable()
	for _, c := range tries {
		for i := range c.Comparisons {
			t.add(c, &c.Comparisons[i])
		}
	}
	if err := t.addItself(tries); err != nil {
		fmt.Fprintln(os.Stderr, "powertable:", err)
		os.Exit(2)
	}
	t.print(os.Stdout)
}

// mostBytes of a comparison.
const mostBytes = 1 << 30

func read(name string) (*verdict.Comparison, error) {
	text, err := bounded.ReadFile(name, mostBytes)
	if err != nil {
		return nil, err
	}
	c := &verdict.Comparison{}
	if err := json.Unmarshal(text, c); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return c, nil
}

package regression

import (
	"fmt"
	"io"
	"strings"
)

// WriteAnnotations writes an annotation of GitHub Actions for each fact that does not hold. Source: GitHub Docs,
// Workflow commands for GitHub Actions.
func (c *Check) WriteAnnotations(w io.Writer) error {
	escape := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	inTitle := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	for _, f := range c.Facts {
		level := map[Standing]string{Regressed: "error", Undecided: "warning", Waived: "notice"}[f.Standing]
		if level == "" {
			continue
		}
		text := escape.Replace(fmt.Sprintf("%s: %s", f.Standing, f.Explained()))
		if _, err := fmt.Fprintf(w, "::%s title=%s::%s\n", level, inTitle.Replace(f.Name), text); err != nil {
			return err
		}
	}
	return nil
}

// WriteSummary writes a table of the facts that moved, in Markdown, for the summary of a job.
func (c *Check) WriteSummary(w io.Writer) error {
	cell := strings.NewReplacer("|", `\|`, "\n", " ")
	_, err := fmt.Fprintf(w, "### %s: %s against baseline %s\n\n%s\n\n| fact | result | why |\n|---|---|---|\n",
		c.Standing, c.Recipe, c.Baseline, c.Count())
	for _, f := range c.Facts {
		if err == nil && f.Moved() {
			_, err = fmt.Fprintf(w, "| %s | %s | %s |\n", cell.Replace(f.Name), f.Standing, cell.Replace(f.Reason))
		}
	}
	return err
}

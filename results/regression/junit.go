package regression

import (
	"encoding/xml"
	"io"
)

// The elements of JUnit XML that CI systems read: github.com/testmoapp/junitxml.
type junitSuite struct {
	XMLName  xml.Name    `xml:"testsuite"`
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string       `xml:"classname,attr"`
	Name    string       `xml:"name,attr"`
	Failure *junitReason `xml:"failure,omitempty"`
	Error   *junitReason `xml:"error,omitempty"`
	Skipped *junitReason `xml:"skipped,omitempty"`
}

type junitReason struct {
	Message string `xml:"message,attr"`
}

// WriteJUnit writes JUnit XML with a test case for each fact: a regression is a failure, a fact that could not be
// decided an error.
func (c *Check) WriteJUnit(w io.Writer) error {
	s := junitSuite{Name: "harness check " + c.Baseline, Tests: len(c.Facts)}
	for _, f := range c.Facts {
		k := junitCase{Class: c.Recipe, Name: f.Name}
		reason := &junitReason{f.Explained()}
		switch f.Standing {
		case Regressed:
			k.Failure = reason
			s.Failures++
		case Undecided:
			k.Error = reason
			s.Errors++
		case Waived, NotCompared:
			k.Skipped = reason
			s.Skipped++
		}
		s.Cases = append(s.Cases, k)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(s); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

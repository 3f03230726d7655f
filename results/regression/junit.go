package regression

import (
	"encoding/xml"
	"fmt"
	"io"
	"time"
)

// The elements of JUnit XML that CI systems read. Two schemas take them: junit-10.xsd of Jenkins' xUnit plugin, and the
// stricter JUnit.xsd of Apache Ant's reports (windyroad/JUnit-Schema), which wants package, id, properties, a type of
// each failure, and what was printed, and wants them in this order.
type junitSuites struct {
	XMLName xml.Name     `xml:"testsuites"`
	Suites  []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name      string `xml:"name,attr"`
	Package   string `xml:"package,attr"`
	ID        int    `xml:"id,attr"`
	Tests     int    `xml:"tests,attr"`
	Failures  int    `xml:"failures,attr"`
	Errors    int    `xml:"errors,attr"`
	Skipped   int    `xml:"skipped,attr"`
	Time      string `xml:"time,attr"`      // seconds, with three decimals at most
	Timestamp string `xml:"timestamp,attr"` // ISO 8601 in UTC, without a zone, which stricter schemas refuse
	Host      string `xml:"hostname,attr"`

	Properties struct{}    `xml:"properties"`
	Cases      []junitCase `xml:"testcase"`
	Out        string      `xml:"system-out"`
	Err        string      `xml:"system-err"`
}

type junitCase struct {
	Class   string       `xml:"classname,attr"`
	Name    string       `xml:"name,attr"`
	Time    string       `xml:"time,attr"`
	Failure *junitReason `xml:"failure,omitempty"`
	Skipped *junitReason `xml:"skipped,omitempty"`
}

type junitReason struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr,omitempty"` // of a failure
}

// Job is where and when a check was made.
type Job struct {
	Host  string
	Began time.Time
	Took  time.Duration // with the training that it began with, if any
}

// WriteJUnit writes JUnit XML with a test case for each fact. A regression is a failure. A fact that is undecided,
// waived or not compared is skipped, with the reason: it says nothing against the program. The suite has the time of
// the job; a fact by itself takes none.
func (c *Check) WriteJUnit(w io.Writer, j Job) error {
	s := junitSuite{Name: "harness check " + c.Baseline, Package: "harness", Tests: len(c.Facts), Time: fmt.Sprintf("%.3f", j.Took.Seconds()),
		Timestamp: j.Began.UTC().Format("2006-01-02T15:04:05"), Host: j.Host}
	for _, f := range c.Facts {
		k := junitCase{Class: c.Recipe, Name: f.Name, Time: "0.000"}
		reason := &junitReason{Message: f.Explained()}
		switch f.Standing {
		case Regressed:
			reason.Type = "regression"
			k.Failure = reason
			s.Failures++
		case Undecided:
			reason.Message = "undecided: " + reason.Message
			k.Skipped = reason
			s.Skipped++
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
	if err := enc.Encode(junitSuites{Suites: []junitSuite{s}}); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

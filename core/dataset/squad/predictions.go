package squad

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"

	"harness.invalid/core/durable"
)

// Answers returns the answers by question.
func (p Predictions) Answers() map[string]string {
	answers := make(map[string]string, len(p))
	for _, prediction := range p {
		answers[prediction.ID] = prediction.Text()
	}
	return answers
}

// Save writes predictions.json, the answers by question, as run_squad.py does: json.dumps(..., indent=4), in the
// order of the questions.
func (p Predictions) Save(path string) error { return durable.WriteFile(path, p.write) }

// SaveNullOdds writes null_odds.json: by question, the score of no answer minus that of the best answer.
func (p Predictions) SaveNullOdds(path string) error { return durable.WriteFile(path, p.writeNullOdds) }

func (p Predictions) writeNullOdds(w io.Writer) error {
	b := bufio.NewWriter(w)
	b.WriteByte('{')
	for i, prediction := range p {
		separate(b, i, 4)
		b.WriteString(pythonString(prediction.ID) + ": " + pythonFloat(prediction.NullOdds))
	}
	if len(p) > 0 {
		b.WriteByte('\n')
	}
	b.WriteString("}\n")
	return b.Flush()
}

// SaveNBest writes nbest_predictions.json: for each question its candidates, best first.
func (p Predictions) SaveNBest(path string) error { return durable.WriteFile(path, p.writeNBest) }

func (p Predictions) write(w io.Writer) error {
	b := bufio.NewWriter(w)
	b.WriteByte('{')
	for i, prediction := range p {
		separate(b, i, 4)
		b.WriteString(pythonString(prediction.ID) + ": " + pythonString(prediction.Text()))
	}
	if len(p) > 0 {
		b.WriteByte('\n')
	}
	b.WriteString("}\n")
	return b.Flush()
}

func (p Predictions) writeNBest(w io.Writer) error {
	b := bufio.NewWriter(w)
	b.WriteByte('{')
	for i, prediction := range p {
		separate(b, i, 4)
		b.WriteString(pythonString(prediction.ID) + ": [")
		for j, c := range prediction.NBest {
			separate(b, j, 8)
			fmt.Fprintf(b, "{\n%12s\"text\": %s,\n%12s\"probability\": %s,\n%12s\"start_logit\": %s,\n%12s\"end_logit\": %s\n%8s}",
				"", pythonString(c.Text), "", pythonFloat(c.Probability), "", pythonFloat(c.StartLogit), "", pythonFloat(c.EndLogit), "")
		}
		b.WriteString("\n    ]")
	}
	if len(p) > 0 {
		b.WriteByte('\n')
	}
	b.WriteString("}\n")
	return b.Flush()
}

// separate goes to a new line for element i.
func separate(b *bufio.Writer, i, indent int) {
	if i > 0 {
		b.WriteByte(',')
	}
	b.WriteByte('\n')
	b.WriteString(strings.Repeat(" ", indent))
}

// pythonFloat is Python's repr of a float: the shortest digits that read back, with an exponent below 1e-4 and from
// 1e16 on.
func pythonFloat(f float64) string {
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// pythonString is a JSON string as Python writes it, in ASCII only.
func pythonString(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\f':
			b.WriteString(`\f`)
		case r == '\b':
			b.WriteString(`\b`)
		case ' ' <= r && r <= '~':
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

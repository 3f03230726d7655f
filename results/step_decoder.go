package results

import (
	"encoding/json"
	"math"
	"strconv"

	"harness.invalid/core/jsonerror"
)

// stepDecoder decodes lines of steps.jsonl, and values by example. It reads the form that is written, objects without
// escapes in their keys, about ten times as fast as encoding/json, and leaves anything else to that.
type stepDecoder struct {
	step  Step
	names map[string]string // one copy of each name
	line  []byte            // what is left of it
}

// decode decodes a line into a step that the next call overwrites.
func (d *stepDecoder) decode(line []byte) (*Step, error) {
	d.line = line
	metrics, seconds := d.step.Metrics, d.step.MeasuredSeconds
	clear(metrics)
	clear(seconds)
	d.step = Step{Metrics: metrics, MeasuredSeconds: seconds}
	if d.object(d.field) && len(d.line) == 0 {
		return &d.step, nil
	}
	d.step = Step{}
	return &d.step, jsonerror.Explain(line, json.Unmarshal(line, &d.step))
}

// field reads the value of a key of a step.
func (d *stepDecoder) field(key []byte) (ok bool) {
	s := &d.step
	switch string(key) {
	case "phase":
		var v []byte
		v, ok = d.text()
		s.Phase = d.name(v)
	case "step":
		s.Step, ok = d.integer()
	case "total_step":
		s.TotalStep, ok = d.integer()
	case "sequences":
		s.Sequences, ok = d.integer()
	case "metrics":
		if s.Metrics == nil {
			s.Metrics = Metrics{}
		}
		ok = d.object(func(key []byte) bool {
			v, ok := d.number()
			s.Metrics[d.name(key)] = v
			return ok
		})
	case "measured_seconds":
		if s.MeasuredSeconds == nil {
			s.MeasuredSeconds = map[string]float64{}
		}
		ok = d.object(func(key []byte) bool {
			v, ok := d.finite()
			s.MeasuredSeconds[d.name(key)] = v
			return ok
		})
	case "learning_rate":
		ok = d.set(&s.LearningRate)
	case "loss_scale":
		ok = d.set(&s.LossScale)
	case "gradient_norm":
		ok = d.set(&s.GradientNorm)
	case "finite":
		s.Finite = d.eat("true")
		ok = s.Finite || d.eat("false")
	case "modelled_seconds":
		s.ModelledSeconds, ok = d.finite()
	case "modelled_phase_seconds":
		s.ModelledPhaseSeconds, ok = d.finite()
	case "modelled_total_seconds":
		s.ModelledTotalSeconds, ok = d.finite()
	}
	return ok
}

func (d *stepDecoder) set(n *Number) bool {
	v, ok := d.number()
	*n = Number(v)
	return ok
}

// eat reads a text, if it comes next.
func (d *stepDecoder) eat(text string) bool {
	if len(d.line) < len(text) || string(d.line[:len(text)]) != text {
		return false
	}
	d.line = d.line[len(text):]
	return true
}

// object reads an object, whose values field reads.
func (d *stepDecoder) object(field func(key []byte) bool) bool {
	if !d.eat("{") {
		return false
	}
	if d.space(); d.eat("}") {
		return true
	}
	for {
		d.space()
		key, ok := d.text()
		if d.space(); !ok || !d.eat(":") {
			return false
		}
		if d.space(); !field(key) {
			return false
		}
		if d.space(); !d.eat(",") {
			return d.eat("}")
		}
	}
}

// space skips what JSON allows between tokens.
func (d *stepDecoder) space() {
	for len(d.line) > 0 && (d.line[0] == ' ' || d.line[0] == '\n' || d.line[0] == '\r' || d.line[0] == '\t') {
		d.line = d.line[1:]
	}
}

// ended reports whether nothing is left.
func (d *stepDecoder) ended() bool {
	d.space()
	return len(d.line) == 0
}

// words reads any string. One that equals like is like.
func (d *stepDecoder) words(like string) (string, bool) {
	line := d.line
	if text, ok := d.text(); ok {
		if string(text) == like {
			return like, true
		}
		return string(text), true
	}
	for i := 1; i < len(line); i++ {
		switch line[i] {
		case '\\':
			i++
		case '"':
			var text string
			d.line = line[i+1:]
			return text, json.Unmarshal(line[:i+1], &text) == nil
		}
	}
	return "", false
}

// text reads a string of printable ASCII without escapes.
func (d *stepDecoder) text() ([]byte, bool) {
	if !d.eat(`"`) {
		return nil, false
	}
	for i, c := range d.line {
		switch {
		case c == '"':
			text := d.line[:i]
			d.line = d.line[i+1:]
			return text, true
		case c == '\\' || c < ' ' || c > '~':
			return nil, false
		}
	}
	return nil, false
}

// name returns a text as a string that equal texts share.
func (d *stepDecoder) name(text []byte) string {
	if s, ok := d.names[string(text)]; ok {
		return s
	}
	if d.names == nil {
		d.names = map[string]string{}
	}
	s := string(text)
	d.names[s] = s
	return s
}

func (d *stepDecoder) integer() (int, bool) {
	n := 0
	for n < len(d.line) && (d.line[n] >= '0' && d.line[n] <= '9') {
		n++
	}
	if n > 1 && d.line[0] == '0' {
		return 0, false
	}
	v, err := strconv.Atoi(string(d.line[:n]))
	d.line = d.line[n:]
	return v, err == nil
}

// number reads what Number writes.
func (d *stepDecoder) number() (float64, bool) {
	switch {
	case d.eat(`"NaN"`):
		return math.NaN(), true
	case d.eat(`"Infinity"`):
		return math.Inf(1), true
	case d.eat(`"-Infinity"`):
		return math.Inf(-1), true
	}
	return d.finite()
}

// finite reads a number by the grammar of JSON.
func (d *stepDecoder) finite() (float64, bool) {
	i := 0
	digits := func() bool {
		from := i
		for i < len(d.line) && d.line[i] >= '0' && d.line[i] <= '9' {
			i++
		}
		return i > from
	}
	at := func(a, b byte) bool {
		is := i < len(d.line) && (d.line[i] == a || d.line[i] == b)
		if is {
			i++
		}
		return is
	}
	at('-', '-')
	if !at('0', '0') && !digits() {
		return 0, false
	}
	if at('.', '.') && !digits() {
		return 0, false
	}
	if at('e', 'E') {
		at('+', '-')
		if !digits() {
			return 0, false
		}
	}
	v, err := strconv.ParseFloat(string(d.line[:i]), 64)
	d.line = d.line[i:]
	return v, err == nil
}

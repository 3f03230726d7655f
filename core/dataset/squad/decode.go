package squad

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"harness.invalid/core/bert"
	"harness.invalid/core/wordpiece/pystring"
)

// Decoding are the flags of run_squad.py that shape an answer.
type Decoding struct {
	NBest           int // n_best_size: starts, ends and answers to consider; 20 as published
	MaxAnswerLength int // max_answer_length in tokens; 30 as published
	// NullThreshold is null_score_diff_threshold: the prediction is "no answer" if its score exceeds the best
	// answer's by more than this. For sets with impossible questions only.
	NullThreshold float64
}

// Validate reports the first setting that allows no answer.
func (d Decoding) Validate() error {
	if d.NBest < 1 || d.MaxAnswerLength < 1 {
		return fmt.Errorf("squad: n_best_size is %d and max_answer_length is %d, want at least 1", d.NBest, d.MaxAnswerLength)
	}
	return nil
}

// Decoder collects the best logits of a set's features and turns them into answers.
type Decoder struct {
	set      *Set
	decoding Decoding
	best     []best // by feature; starts is nil where there are no logits yet
}

type best struct {
	starts, ends       []logit
	nullStart, nullEnd float32 // of [CLS], which stands for no answer
	likelihood         float64 // of an answer in the window, see Decoder.Likelihood
	answered           bool    // there is one
}

type logit struct {
	index int32
	value float32
}

// NewDecoder returns a decoder without logits.
func NewDecoder(s *Set, d Decoding) (*Decoder, error) {
	if err := d.Validate(); err != nil {
		return nil, err
	}
	return &Decoder{set: s, decoding: d, best: make([]best, s.Len())}, nil
}

// Add takes the logits [B, S] of a batch that came from Set.Batches. Logits that are not finite are not candidates:
// a model that has diverged gets the answer of the published program for an empty list, "empty".
func (d *Decoder) Add(b *bert.Batch, starts, ends []float32) error {
	length := d.set.Settings.MaxLength
	if n := b.Size * length; b.Length != length || len(starts) != n || len(ends) != n {
		return fmt.Errorf("squad: %d start and %d end logits, batch of %d x %d: want %d logits for each", len(starts), len(ends), b.Size,
			b.Length, n)
	}
	if b.Sample < 0 || b.Sample+b.Size > len(d.best) {
		return fmt.Errorf("squad: logits of features %d to %d, but there are %d features", b.Sample, b.Sample+b.Size-1, len(d.best))
	}
	for i := range b.Size {
		starts, ends := starts[i*length:(i+1)*length], ends[i*length:(i+1)*length]
		of := best{
			starts: highest(starts, d.decoding.NBest), ends: highest(ends, d.decoding.NBest), nullStart: starts[0], nullEnd: ends[0],
		}
		of.likelihood, of.answered = d.likelihood(b.Sample+i, starts, ends)
		d.best[b.Sample+i] = of
	}
	return nil
}

// highest returns the n greatest values with their indices, greatest first, of equal ones the first:
// _get_best_indexes. The list is never nil.
func highest(values []float32, n int) []logit {
	list := make([]logit, 0, min(n, len(values)))
	for i, v := range values {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			continue
		}
		if len(list) == cap(list) {
			if v <= list[len(list)-1].value {
				continue
			}
			list = list[:len(list)-1]
		}
		at := len(list)
		for at > 0 && list[at-1].value < v {
			at--
		}
		list = slices.Insert(list, at, logit{int32(i), v})
	}
	return list
}

// Prediction is the answer to a question and the n-best list that it is from, which always has at least one candidate.
type Prediction struct {
	ID    string
	NBest []Candidate
	// NullOdds is the score of no answer minus that of the best answer, as in null_odds.json. For sets with
	// impossible questions only.
	NullOdds float64

	text string
}

// Text is the answer: the first of the list, or where questions may be impossible the first that is not empty, or
// nothing.
func (p Prediction) Text() string { return p.text }

// Candidate is a possible answer; one without text says that there is none.
type Candidate struct {
	Text                 string
	Probability          float64 // softmax over the n-best list
	StartLogit, EndLogit float64
}

// Predictions are the answers to a set's questions, in order.
type Predictions []Prediction

// Predictions makes the answers: write_predictions of run_squad.py. Every feature must have its logits.
func (d *Decoder) Predictions() (Predictions, error) {
	list := make(Predictions, 0, len(d.set.examples))
	for i := range d.set.examples {
		e := &d.set.examples[i]
		for j := range e.windows {
			if d.best[e.first+j].starts == nil {
				return nil, fmt.Errorf("squad: question %s has no logits for feature %d", e.id, e.first+j)
			}
		}
		list = append(list, d.predict(e))
	}
	return list, nil
}

// span is a start and an end in a feature.
type span struct {
	feature    int
	start, end int32 // tokens of the passage
	from, to   float64
}

// predict chooses the answer to a question.
func (d *Decoder) predict(e *example) Prediction {
	p := Prediction{ID: e.id, NBest: d.candidates(e)}
	if !d.set.Settings.Impossible {
		p.text = p.NBest[0].Text
		return p
	}
	best := p.NBest[slices.IndexFunc(p.NBest, func(c Candidate) bool { return c.Text != "" })]
	null := d.null(e)
	p.NullOdds = null.from + null.to - best.StartLogit - best.EndLogit
	if !(p.NullOdds > d.decoding.NullThreshold) {
		p.text = best.Text
	}
	return p
}

// null is the span of no answer, of the window whose [CLS] has the lowest score: the window least sure that it
// holds none. Where no window has a finite score it is as unlikely as a float says.
func (d *Decoder) null(e *example) span {
	s := span{start: noToken, end: noToken, from: -math.MaxFloat32, to: -math.MaxFloat32}
	lowest := math.Inf(1)
	for j := range e.windows {
		b := &d.best[e.first+j]
		from, to := float64(b.nullStart), float64(b.nullEnd)
		if score := from + to; score < lowest && !math.IsInf(score, -1) {
			lowest = score
			s.feature, s.from, s.to = j, from, to
		}
	}
	return s
}

// noToken is the start and end of the span for no answer.
const noToken = -1

// candidates returns the n-best list of a question. Where it may be impossible, the list has a candidate without
// text and one with.
func (d *Decoder) candidates(e *example) []Candidate {
	var spans []span
	for j := range e.windows {
		spans = d.spans(spans, e, j)
	}
	impossible := d.set.Settings.Impossible
	if impossible {
		spans = append(spans, d.null(e))
	}
	// Python's sort is stable, also in reverse.
	slices.SortStableFunc(spans, func(a, b span) int { return cmp.Compare(b.from+b.to, a.from+a.to) })

	var list []Candidate
	seen := map[string]bool{}
	for _, s := range spans {
		if len(list) >= d.decoding.NBest {
			break
		}
		text := ""
		if s.start != noToken {
			text = d.text(e, s)
		}
		if seen[text] {
			continue
		}
		seen[text] = true
		list = append(list, Candidate{Text: text, StartLogit: s.from, EndLogit: s.to})
	}
	if impossible && !seen[""] {
		s := d.null(e)
		list = append(list, Candidate{StartLogit: s.from, EndLogit: s.to})
	}
	if len(list) == 0 || len(list) == 1 && list[0].Text == "" {
		// As in transformers, squad_metrics.py; google-research/bert has no answer to compare with then, and stops.
		list = slices.Insert(list, 0, Candidate{Text: "empty"})
	}
	softmax(list)
	return list
}

// spans appends the spans of a feature that may be an answer, in the order of their logits.
func (d *Decoder) spans(spans []span, e *example, window int) []span {
	features := d.set.features[e.first : e.first+e.windows]
	f, b := &features[window], &d.best[e.first+window]
	offset := int32(len(e.query)) + 2 - f.start // from a token of the passage to its position in the feature
	for _, from := range b.starts {
		start := from.index - offset
		if start < f.start || start >= f.start+f.length || mostContext(features, start) != window {
			continue
		}
		for _, to := range b.ends {
			end := to.index - offset
			if end < start || end >= f.start+f.length || int(end-start)+1 > d.decoding.MaxAnswerLength {
				continue
			}
			spans = append(spans, span{window, start, end, float64(from.value), float64(to.value)})
		}
	}
	return spans
}

// mostContext returns the window in which a token has the most text on its poorer side; of equal ones the first. It
// is _check_is_max_context.
func mostContext(windows []feature, token int32) int {
	best, most := -1, math.Inf(-1)
	for i, w := range windows {
		last := w.start + w.length - 1
		if token < w.start || token > last {
			continue
		}
		score := float64(min(token-w.start, last-token)) + float64(0.01*float64(w.length))
		if score > most {
			best, most = i, score
		}
	}
	return best
}

// text returns the passage's own words for a span.
func (d *Decoder) text(e *example, s span) string {
	p := e.passage
	words := p.text(int(p.wordOf[s.start]), int(p.wordOf[s.end]))
	tokens := make([]string, 0, s.end-s.start+1)
	for _, id := range p.ids[s.start : s.end+1] {
		tokens = append(tokens, d.set.tokenizer.Vocab().Token(id))
	}
	text := strings.Join(tokens, " ")
	text = strings.ReplaceAll(text, " ##", "")
	text = strings.ReplaceAll(text, "##", "")
	text = strings.Join(pystring.Fields(text), " ")
	return project(text, words, d.set.tokenizer.Basic())
}

// softmax sets the candidates' probabilities.
func softmax(list []Candidate) {
	most := math.Inf(-1)
	for _, c := range list {
		most = max(most, c.StartLogit+c.EndLogit)
	}
	var sum float64
	for i, c := range list {
		list[i].Probability = math.Exp(c.StartLogit + c.EndLogit - most)
		sum += list[i].Probability
	}
	for i := range list {
		list[i].Probability /= sum
	}
}

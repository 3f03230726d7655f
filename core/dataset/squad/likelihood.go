package squad

import "math"

// Likelihood is the mean over the set's questions of the answer's negative log-likelihood, in nats:
//
//	-log p(start) - log p(end)
//
// p is the softmax of a window's logits over its tokens, without padding. As in decoding, the window of an answer is
// the one in which the answer's first token has the most context. Of several answers the likeliest counts; that of a
// question without one is [CLS], of which the mean over all windows is taken. Questions whose answer is not in the
// passage, or runs over the end of its window, are left out; ok is false if nothing is left.
func (d *Decoder) Likelihood() (mean float64, ok bool) {
	n := 0
	for i := range d.set.examples {
		e := &d.set.examples[i]
		if v, found := d.exampleLikelihood(e); found {
			mean += v
			n++
		}
	}
	return mean / float64(max(n, 1)), n > 0
}

// exampleLikelihood is that of one question.
func (d *Decoder) exampleLikelihood(e *example) (v float64, ok bool) {
	impossible := len(e.gold) > 0 && e.gold[0].start == noToken
	least, sum, windows := math.Inf(1), 0.0, 0
	for j := range e.windows {
		if f := &d.best[e.first+j]; f.answered {
			least, sum = math.Min(least, f.likelihood), sum+f.likelihood // NaN if a window has diverged
			windows++
		}
	}
	if impossible {
		return sum / float64(max(windows, 1)), windows > 0
	}
	return least, windows > 0
}

// likelihood is the part of a feature, from its logits; ok is false if none of the question's answers belongs to its
// window.
func (d *Decoder) likelihood(feature int, starts, ends []float32) (least float64, ok bool) {
	f := &d.set.features[feature]
	e := &d.set.examples[f.example]
	offset := int32(len(e.query)) + 2 - f.start // from a token of the passage to its position in the feature
	n := int32(len(e.query)) + 3 + f.length
	least = math.Inf(1)
	for _, g := range e.gold {
		from, to := int32(0), int32(0) // [CLS]
		if g.start != noToken {
			window := mostContext(d.set.features[e.first:e.first+e.windows], g.start)
			if e.first+window != feature || g.end >= f.start+f.length {
				continue
			}
			from, to = g.start+offset, g.end+offset
		}
		least, ok = math.Min(least, surprise(starts[:n], from)+surprise(ends[:n], to)), true
	}
	return least, ok
}

// surprise is -log softmax(logits)[at].
func surprise(logits []float32, at int32) float64 {
	most := float64(logits[0])
	for _, v := range logits {
		most = max(most, float64(v))
	}
	var sum float64
	for _, v := range logits {
		sum += math.Exp(float64(v) - most)
	}
	return most + math.Log(sum) - float64(logits[at])
}

package wordpiece

import "slices"

// pair is two symbols that stand side by side in words.
type pair struct {
	left, right int32
	count       int64   // occurrences in the text
	words       []int32 // where it has occurred; words may be listed twice, or no longer contain it

	// The heap's own view of the pair. A merge changes many counts at once; the heap takes them over one by one.
	score float64 // the higher, the sooner merged
	rank  int64   // count that the score is of
	place int32   // in the heap; -1: not there
}

// pairs counts all pairs of a text's words and keeps the best one at hand, while merges change the words. A heap
// that knows where each pair is takes a changed count in O(log n), and holds only pairs that are frequent enough.
type pairs struct {
	all   []pair
	index map[uint64]int32
	heap  []int32

	minimum    int64
	likelihood bool
	counts     []int64   // of each symbol, for likelihood
	touching   [][]int32 // pairs of each symbol, for likelihood
}

func (p *pairs) find(left, right int32) int32 {
	key := uint64(left)<<32 | uint64(right)
	i, ok := p.index[key]
	if !ok {
		i = int32(len(p.all))
		p.index[key] = i
		p.all = append(p.all, pair{left: left, right: right, place: -1})
		if p.likelihood {
			p.touching[left] = append(p.touching[left], i)
			if right != left {
				p.touching[right] = append(p.touching[right], i)
			}
		}
	}
	return i
}

// rescore moves pair i to the place that its count and its symbols' counts demand.
func (p *pairs) rescore(i int32) {
	q := &p.all[i]
	if q.count < p.minimum || q.count == 0 {
		p.remove(i)
		return
	}
	q.rank, q.score = q.count, float64(q.count)
	if p.likelihood {
		q.score /= float64(p.counts[q.left]) * float64(p.counts[q.right])
	}
	if q.place < 0 {
		q.place = int32(len(p.heap))
		p.heap = append(p.heap, i)
	}
	p.fix(q.place)
}

// best returns the pair to merge next, or false if none is frequent enough.
func (p *pairs) best() (int32, bool) {
	if len(p.heap) == 0 {
		return 0, false
	}
	return p.heap[0], true
}

func (p *pairs) remove(i int32) {
	at := p.all[i].place
	if at < 0 {
		return
	}
	p.all[i].place = -1
	last := p.heap[len(p.heap)-1]
	p.heap = p.heap[:len(p.heap)-1]
	if last != i {
		p.put(at, last)
		p.fix(at)
	}
}

// before is the order of merging: by score, then count, then the symbols' ids, which are in order of their making.
// No two pairs are equal, so the order does not depend on the heap's history.
func (p *pairs) before(i, j int32) bool {
	a, b := &p.all[i], &p.all[j]
	switch {
	case a.score != b.score:
		return a.score > b.score
	case a.rank != b.rank:
		return a.rank > b.rank
	case a.left != b.left:
		return a.left < b.left
	}
	return a.right < b.right
}

func (p *pairs) put(at, i int32) {
	p.heap[at] = i
	p.all[i].place = at
}

// fix moves the pair at a place of the heap up or down to where it belongs.
func (p *pairs) fix(at int32) {
	i := p.heap[at]
	for at > 0 {
		parent := (at - 1) / 2
		if !p.before(i, p.heap[parent]) {
			break
		}
		p.put(at, p.heap[parent])
		at = parent
	}
	for {
		child := 2*at + 1
		if int(child) >= len(p.heap) {
			break
		}
		if r := child + 1; int(r) < len(p.heap) && p.before(p.heap[r], p.heap[child]) {
			child = r
		}
		if !p.before(p.heap[child], i) {
			break
		}
		p.put(at, p.heap[child])
		at = child
	}
	p.put(at, i)
}

// trainingWord is a word of the text with the symbols that it is made of so far.
type trainingWord struct {
	symbols []int32
	count   int64
}

// corpus is the words and their pairs.
type corpus struct {
	words []trainingWord
	pairs pairs
	dirty []int32 // pairs whose count the current merge changed
}

func newCorpus(words []trainingWord, symbols int, minimum int64, likelihood bool) *corpus {
	c := &corpus{words: words, pairs: pairs{index: make(map[uint64]int32), minimum: minimum, likelihood: likelihood}}
	p := &c.pairs
	p.counts = make([]int64, symbols)
	p.touching = make([][]int32, symbols)
	for i, w := range words {
		for k, s := range w.symbols {
			p.counts[s] += w.count
			if k > 0 {
				c.add(w.symbols[k-1], s, int32(i), w.count)
			}
		}
	}
	for i := range p.all {
		p.rescore(int32(i))
	}
	return c
}

// add counts a pair n times more in a word; n may be negative.
func (c *corpus) add(left, right, word int32, n int64) {
	i := c.pairs.find(left, right)
	q := &c.pairs.all[i]
	q.count += n
	if n > 0 && (len(q.words) == 0 || q.words[len(q.words)-1] != word) {
		q.words = append(q.words, word)
	}
	c.dirty = append(c.dirty, i)
}

// merge makes one symbol, whole, of every occurrence of the pair in every word, from left to right.
func (c *corpus) merge(i, whole int32) {
	p := &c.pairs
	for int(whole) >= len(p.counts) {
		p.counts = append(p.counts, 0)
		p.touching = append(p.touching, nil)
	}
	c.dirty = c.dirty[:0]
	left, right := p.all[i].left, p.all[i].right
	words := p.all[i].words
	p.all[i].words = nil // the pair will not occur again: all new pairs contain whole
	for _, word := range words {
		c.mergeWord(word, left, right, whole)
	}
	if p.likelihood {
		for _, s := range []int32{left, right, whole} {
			c.dirty = append(c.dirty, p.touching[s]...)
		}
	}
	slices.Sort(c.dirty)
	for _, j := range slices.Compact(c.dirty) {
		p.rescore(j)
	}
}

func (c *corpus) mergeWord(word, left, right, whole int32) {
	w := &c.words[word]
	s, n := w.symbols, w.count
	out := 0
	for k := 0; k < len(s); k++ {
		if k+1 == len(s) || s[k] != left || s[k+1] != right {
			s[out] = s[k]
			out++
			continue
		}
		c.add(left, right, word, -n)
		if out > 0 {
			c.add(s[out-1], left, word, -n)
			c.add(s[out-1], whole, word, n)
		}
		if k+2 < len(s) {
			c.add(right, s[k+2], word, -n)
			c.add(whole, s[k+2], word, n)
		}
		c.pairs.counts[left] -= n
		c.pairs.counts[right] -= n
		c.pairs.counts[whole] += n
		s[out] = whole
		out++
		k++
	}
	w.symbols = s[:out]
}

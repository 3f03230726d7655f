package wikipedia

import (
	"crypto/sha256"
	"encoding/binary"
)

// seen remembers texts by 64 bits of their SHA-256, in 64 MiB however many there are: 8 million in sets of eight. In a
// full set the newest text replaces one, whose copies are then not noticed. English Wikipedia has 7 million articles;
// that two different ones have the same 64 bits has a probability of one in a million.
type seen struct {
	sums []uint64 // 0: free
}

const (
	seenSets = 1 << 20
	seenWays = 8
)

// add reports whether a text is new.
func (s *seen) add(text []byte) bool {
	if s.sums == nil {
		s.sums = make([]uint64, seenSets*seenWays)
	}
	sum := sha256.Sum256(text)
	key := binary.LittleEndian.Uint64(sum[:]) | 1
	start := int(binary.LittleEndian.Uint64(sum[8:])%seenSets) * seenWays
	set := s.sums[start : start+seenWays]
	for i, k := range set {
		if k == key {
			return false
		}
		if k == 0 {
			set[i] = key
			return true
		}
	}
	copy(set, set[1:])
	set[seenWays-1] = key
	return true
}

package pretraining

import (
	"encoding/binary"
	"hash/crc32"
	"time"
)

// ReadShard reads every sequence of a shard. The sum at its end is made right first: what a fuzzer changes is to be
// seen by what comes after.
func ReadShard(data []byte, vocabulary, length int) error {
	if n := len(data) - 4; n >= 0 {
		data = append(data[:n:n], 0, 0, 0, 0)
		binary.LittleEndian.PutUint32(data[n:], crc32.Checksum(data[:n], castagnoli))
	}
	s, err := parseShard("fuzz", data, vocabulary, length)
	if err != nil {
		return err
	}
	var instance Instance
	for i := range s.count {
		if err := s.sequence(i, &instance); err != nil {
			return err
		}
	}
	return nil
}

// NoteEvery changes the time between two notes of a preparation until the function that it returns is called.
func NoteEvery(d time.Duration) (restore func()) {
	before := journalEvery
	journalEvery = d
	return func() { journalEvery = before }
}

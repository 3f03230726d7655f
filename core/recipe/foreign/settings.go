package foreign

import (
	"slices"
	"strings"
)

// settings are keys and values in the order in which they were first set.
type settings struct {
	keys   []string
	values map[string]string
}

func (s *settings) set(key, value string) {
	if s.values == nil {
		s.values = make(map[string]string)
	}
	if _, ok := s.values[key]; !ok {
		s.keys = append(s.keys, key)
	}
	s.values[key] = value
}

// remove takes a key out.
func (s *settings) remove(key string) {
	delete(s.values, key)
	s.keys = slices.DeleteFunc(s.keys, func(k string) bool { return k == key })
}

// flow writes settings as YAML on one line.
func (s *settings) flow() string {
	var parts []string
	for _, k := range s.keys {
		parts = append(parts, k+": "+s.values[k])
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

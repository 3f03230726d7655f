package wikipedia

import (
	"bytes"
	"slices"
)

// longest tag that counts as one.
const mostTag = 4096

// tag reads a comment or a tag. A '<' that begins neither is text.
func (s *stripper) tag() bool {
	rest := s.in[s.at:]
	if bytes.HasPrefix(rest, []byte("<!--")) {
		if end := bytes.Index(rest, []byte("-->")); end >= 0 {
			s.at += end + 3
		} else {
			s.at = len(s.in)
		}
		return true
	}
	i := 1
	closing := i < len(rest) && rest[i] == '/'
	if closing {
		i++
	}
	from := i
	for i < len(rest) && i-from < 20 && (rest[i]|0x20 >= 'a' && rest[i]|0x20 <= 'z' || i > from && rest[i] >= '0' && rest[i] <= '9') {
		i++
	}
	if i == from || i == len(rest) || rest[i] != '>' && rest[i] != '/' && rest[i] > ' ' {
		return false
	}
	name := string(bytes.ToLower(rest[from:i]))
	end := bytes.IndexByte(rest[i:min(len(rest), i+mostTag)], '>')
	if end < 0 {
		return false
	}
	end += i
	number := slices.Index(dropped, name)
	switch {
	case closing && number >= 0:
		s.pop(element+kind(number), end+1)
	case closing || rest[end-1] == '/':
		s.at += end + 1
	case slices.Contains(verbatim, name):
		s.verbatim(name, number < 0, end+1)
	case number >= 0:
		s.push(element+kind(number), end+1)
	default:
		s.at += end + 1
		if name == "br" {
			s.out = append(s.out, ' ')
		}
	}
	return true
}

// verbatim goes to the end of an element in which marks are text. Without an end, the tag goes alone.
func (s *stripper) verbatim(name string, keep bool, size int) {
	s.at += size
	inner := s.in[s.at:]
	if s.unclosed[name] {
		return
	}
	end := []byte("</" + name)
	for i := 0; ; i++ {
		j := bytes.Index(inner[i:], []byte("</"))
		if j < 0 {
			if s.unclosed == nil {
				s.unclosed = map[string]bool{}
			}
			s.unclosed[name] = true
			return
		}
		i += j
		if len(inner)-i < len(end) || !bytes.EqualFold(inner[i:i+len(end)], end) {
			continue
		}
		if keep {
			s.out = append(s.out, inner[:i]...)
		}
		s.at += i
		return // the end tag is read next
	}
}

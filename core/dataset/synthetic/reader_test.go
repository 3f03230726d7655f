package synthetic

import (
	"fmt"
	"regexp"
	"strings"
)

// said is a fact that a reader found in a sentence: the value is context[start:end].
type said struct {
	name       string // full name of whom it is about
	relation   relation
	value      string
	start, end int
}

// form is a template as a pattern that finds who a sentence is about and what it states.
type form struct {
	pattern  *regexp.Regexp
	slots    []string
	literals []string // between the slots: looked for first, as patterns with long lists are slow
}

// match returns the places of the whole and of each slot, nil if the text is not of the form.
func (f *form) match(text string) []int {
	rest := text
	for _, l := range f.literals {
		_, after, found := strings.Cut(rest, l)
		if !found {
			return nil
		}
		rest = after
	}
	return f.pattern.FindStringSubmatchIndex(text)
}

var (
	firstName = "(?:" + strings.Join(womensNames, "|") + "|" + strings.Join(mensNames, "|") + ")"
	surname   = "(?:" + strings.Join(surnames, "|") + ")"
	fullName  = firstName + " " + surname
	called    = "(?:" + firstName + " )?" + surname
)

// reader reads contexts and questions back, with patterns in the place of slots: it knows the templates and what
// words the lists have, and nothing of how prose is made.
type reader struct{ statements, questions []form }

func newReader() *reader {
	cities := ""
	var nations []string
	for _, c := range countries {
		nations = append(nations, c.name)
		cities += "|" + strings.Join(c.cities[:], "|")
	}
	var trades, works []string
	for _, p := range professions {
		trades, works = append(trades, p.name), append(works, p.work)
	}
	patterns := map[string]string{
		"S": "He|She|" + called, "s": "he|she|" + called, "S's": "His|Her|" + called + "'s", "n": fullName, "his": "his|her", "a": "an?",
		"kind": strings.Join(works, "|"), "partner": "husband|wife", "eventplace": cities[1:], "eventmonth": strings.Join(months, "|"),
		"birthplace": cities[1:], "home": strings.Join(nations,
			"|"), "birthyear": `\d{4}`, "workyear": `\d{4}`, "profession": strings.Join(trades, "|"),
		"subject": strings.Join(subjects, "|"), "instrument": strings.Join(instruments, "|"), "teacher": fullName, "spouse": fullName,
		"work":  "(?:" + strings.Join(titleAdjectives, "|") + ") (?:" + strings.Join(titleNouns, "|") + ")",
		"event": "(?:" + strings.Join(eventNames, "|") + ") (?:" + strings.Join(eventKinds, "|") + ")",
	}
	compile := func(template string) form {
		f := form{literals: regexp.MustCompile(`\{.*?\}`).Split(template, -1)}
		pattern := regexp.MustCompile(`\\\{.*?\\\}`).ReplaceAllStringFunc(regexp.QuoteMeta(template), func(slot string) string {
			name := strings.Trim(slot, `\{}`)
			if patterns[name] == "" {
				panic("no pattern for slot " + name)
			}
			f.slots = append(f.slots, name)
			return "(" + patterns[name] + ")"
		})
		f.pattern = regexp.MustCompile("^" + pattern + "$")
		return f
	}
	r := new(reader)
	for _, topic := range topics {
		for _, template := range topic {
			r.statements = append(r.statements, compile(template))
		}
	}
	for _, q := range questions {
		for _, text := range q.texts {
			f := compile(text)
			f.slots = append(f.slots, string(q.relation)) // behind the last group: it only names the relation
			r.questions = append(r.questions, f)
		}
	}
	return r
}

// context reads a context. Pronouns mean whom the sentence before is about, surnames the one person so called so far.
func (r *reader) context(w *world, text string) ([]said, error) {
	women := map[string]bool{}
	for _, p := range w.people {
		women[p.name()] = p.female
	}
	var facts []said
	names := regexp.MustCompile(fullName)
	last, others, offset := "", false, 0
	for _, sentence := range strings.SplitAfter(text, ".") {
		start := offset + len(sentence) - len(strings.TrimPrefix(sentence, " "))
		offset += len(sentence)
		if sentence = strings.TrimPrefix(sentence, " "); sentence == "" {
			continue
		}
		matched := false
		for _, f := range r.statements {
			m := f.match(sentence)
			if m == nil {
				continue
			}
			if matched {
				return nil, fmt.Errorf("sentence %q can be read in two ways", sentence)
			}
			matched = true
			who, relatives := "", false
			var of []said
			for i, slot := range f.slots {
				from, to := m[2*i+2], m[2*i+3]
				value := sentence[from:to]
				switch slot {
				case "S", "s", "S's":
					who = strings.TrimSuffix(value, "'s")
				case "his", "a", "kind", "partner", "eventplace", "eventmonth":
				default:
					relatives = relatives || slot == "teacher" || slot == "spouse"
					of = append(of, said{relation: relation(slot), value: value, start: start + from, end: start + to})
				}
			}
			switch strings.ToLower(who) {
			case "he", "she", "his", "her":
				if last == "" || others || women[last] != (who == "She" || who == "she" || who == "Her") {
					return nil, fmt.Errorf("sentence %q behind one about %q: %q is nobody", sentence, last, who)
				}
				who = last
			}
			if !strings.Contains(who, " ") {
				full := ""
				for _, name := range names.FindAllString(text[:offset], -1) {
					if strings.HasSuffix(name, " "+who) {
						if full != "" && full != name {
							return nil, fmt.Errorf("sentence %q: %s may be %s or %s", sentence, who, full, name)
						}
						full = name
					}
				}
				who = full
			}
			last, others = who, relatives
			for _, s := range of {
				s.name = who
				facts = append(facts, s)
			}
		}
		if !matched {
			return nil, fmt.Errorf("sentence %q is none of the world's", sentence)
		}
	}
	return facts, nil
}

// question returns the name and the relation that a question asks for.
func (r *reader) question(text string) (name string, asked relation, err error) {
	for _, f := range r.questions {
		if m := f.match(text); m != nil {
			for i, slot := range f.slots[:len(f.slots)-1] {
				if slot == "n" {
					name = text[m[2*i+2]:m[2*i+3]]
				}
			}
			return name, relation(f.slots[len(f.slots)-1]), nil
		}
	}
	return "", "", fmt.Errorf("question %q is none of the world's", text)
}

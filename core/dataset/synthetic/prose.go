package synthetic

import (
	"slices"
	"strings"

	"harness.invalid/core/dataset/internal/draw"
)

// prose is text in the making: sentences about people, with a note of every fact that they state.
type prose struct {
	text       strings.Builder
	separator  string // between sentences
	style      style
	facts      []fact
	introduced []*person // have been the subject, called by their full names
	mentioned  []*person // all who are named so far
	subject    *person   // of the last sentence, if a pronoun would be unambiguous
}

// fact says that text[start:end] is the value of the relation for a person.
type fact struct {
	about      *person
	relation   relation
	start, end int // in bytes, which are characters here: the world is plain ASCII
}

// style is how often people who have already been called by name are called otherwise. The rest get their full names.
type style struct {
	pronouns float64 // where the last sentence was about them
	surnames float64
}

var (
	plain  = style{pronouns: 0.4, surnames: 0.2}
	formal = style{pronouns: 0.2, surnames: 0.1} // where several people are told apart
)

// tell adds a sentence about a person after one of the templates.
func (t *prose) tell(d *draw.Draws, p *person, templates []string) {
	t.say(d, p, pick(d, fitting(p, templates)))
}

// fitting returns the templates all slots of which have a value for the person.
func fitting(p *person, templates []string) []string {
	return slices.DeleteFunc(slices.Clone(templates), func(template string) bool {
		return p.teacher == nil && strings.Contains(template, "{teacher}") ||
			p.spouse == nil && (strings.Contains(template, "{spouse}") || strings.Contains(template, "{partner}"))
	})
}

// say adds the sentence of a template about a person.
func (t *prose) say(d *draw.Draws, p *person, template string) {
	if t.text.Len() > 0 {
		t.text.WriteString(t.separator)
	}
	named, others := false, false
	for template != "" {
		before, rest, found := strings.Cut(template, "{")
		t.text.WriteString(before)
		if !found {
			break
		}
		slot, after, _ := strings.Cut(rest, "}")
		template = after
		switch slot {
		case "S", "s", "S's":
			t.text.WriteString(t.call(d, p, slot))
			named = true
		case "n":
			t.text.WriteString(p.name())
		case "his":
			t.text.WriteString(gendered(p.female, "his", "her"))
		case "partner":
			t.text.WriteString(gendered(p.spouse.female, "husband", "wife"))
		case "a":
			t.text.WriteString(article(p.profession.name))
		case "kind":
			t.text.WriteString(p.profession.work)
		case "birthcountry":
			t.text.WriteString(p.birthplace.country)
		case "eventplace":
			t.text.WriteString(p.event.place.name)
		case "eventmonth":
			t.text.WriteString(p.event.month)
		default:
			r := relation(slot)
			if r == spouse || r == teacher {
				others = true
				t.mentioned = append(t.mentioned, p.relative(r))
			}
			start := t.text.Len()
			t.text.WriteString(p.value(r))
			t.facts = append(t.facts, fact{p, r, start, t.text.Len()})
		}
	}
	t.subject = nil
	if named && !others {
		t.subject = p
	}
}

// call returns how the person is called in slot {S}, {s} or {S's} of the next sentence: by full name or surname, or
// by a pronoun.
func (t *prose) call(d *draw.Draws, p *person, slot string) string {
	name := p.name()
	if !slices.Contains(t.introduced, p) {
		t.introduced, t.mentioned = append(t.introduced, p), append(t.mentioned, p)
	} else if u := d.Float64(); u < t.style.pronouns && t.subject == p {
		switch slot {
		case "S":
			return gendered(p.female, "He", "She")
		case "s":
			return gendered(p.female, "he", "she")
		}
		return gendered(p.female, "His", "Her")
	} else if u >= 1-t.style.surnames && !slices.ContainsFunc(t.mentioned, func(q *person) bool { return q != p && q.surname == p.surname }) {
		name = p.surname
	}
	if slot == "S's" {
		return name + "'s"
	}
	return name
}

func gendered(female bool, his, her string) string {
	if female {
		return her
	}
	return his
}

func article(noun string) string {
	if strings.ContainsRune("aeiou", rune(noun[0])) {
		return "an"
	}
	return "a"
}

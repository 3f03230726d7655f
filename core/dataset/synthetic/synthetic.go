package synthetic

import (
	"cmp"
	"slices"
	"strconv"

	"harness.invalid/core/dataset/internal/draw"
)

// Parts of a world that are drawn independently of each other.
const (
	partEvents = iota
	partNames
	partPeople // one row of choices per person
	partSpouses
	partTeachers
	partLives    // documents, one row per person
	partQuizzes  // documents, one row per person
	partPlaces   // documents, one row per place
	partTraining // passages, one row each
	partDev      // passages, one row each
)

// world holds all facts. It is a function of the seed and the number of people.
type world struct {
	seed   uint64
	places []place
	events []event
	people []*person // the training people first
	dev    int       // number of people at the end whom no training question mentions
}

type place struct{ name, country string }

// event is something that takes place every year in the same month.
type event struct {
	name  string
	month string
	place *place
}

type profession struct {
	name string
	work string // kind of work that the profession makes
}

// person is somebody with all facts about them.
type person struct {
	first, surname  string
	female          bool
	birthplace      *place
	birthYear       int
	home            string // country, another than the birthplace's
	profession      *profession
	subject         string
	instrument      string
	work            string
	workYear        int
	event           *event
	spouse, teacher *person // nil where there is none; they are training people if the person is one, and dev people if not
}

func (p *person) name() string { return p.first + " " + p.surname }

// Sizes of a world. The least leaves ten dev people, enough for distractors; the most is the number of different
// full names.
const (
	minPeople = 50
	devShare  = 10 // one person in this many is a dev person
)

func maxPeople() int { return (len(womensNames) + len(mensNames)) * len(surnames) }

// newWorld makes up a world. People is between minPeople and maxPeople.
func newWorld(seed uint64, people int) *world {
	w := &world{seed: seed, dev: max(people/devShare, 10)}
	for _, c := range countries {
		for _, city := range c.cities {
			w.places = append(w.places, place{city, c.name})
		}
	}
	d := w.draws(partEvents, 0)
	for i, p := range d.Permutation(len(w.places))[:len(eventNames)] {
		w.events = append(w.events, event{
			name:  eventNames[i] + " " + eventKinds[i%len(eventKinds)],
			month: pick(d, months),
			place: &w.places[p],
		})
	}
	firsts := slices.Concat(womensNames, mensNames)
	for i, n := range w.draws(partNames, 0).Permutation(maxPeople())[:people] {
		first := int(n) / len(surnames)
		w.people = append(w.people, w.newPerson(i, firsts[first], surnames[int(n)%len(surnames)], first < len(womensNames)))
	}
	for group, people := range [][]*person{w.training(), w.held()} {
		marry(w.draws(partSpouses, group), people)
		teach(w.draws(partTeachers, group), people)
	}
	return w
}

func (w *world) newPerson(i int, first, surname string, female bool) *person {
	d := w.draws(partPeople, i)
	p := &person{first: first, surname: surname, female: female}
	two := d.Permutation(len(countries))
	p.birthplace = &w.places[int(two[0])*len(countries[0].cities)+d.IntN(len(countries[0].cities))]
	p.home = countries[two[1]].name
	p.birthYear = 1920 + d.IntN(40)
	p.workYear = 1980 + d.IntN(20) // whatever the birth year, so that every year is a frequent word
	p.profession = &professions[d.IntN(len(professions))]
	p.work = pick(d, titleAdjectives) + " " + pick(d, titleNouns)
	p.subject = pick(d, subjects)
	p.instrument = pick(d, instruments)
	p.event = &w.events[d.IntN(len(w.events))]
	return p
}

// marry marries people pairwise; one in ten pairs stays single, and so do namesakes, because surnames alone are
// used for people.
func marry(d *draw.Draws, people []*person) {
	order := d.Permutation(len(people))
	for i := 0; i+1 < len(order); i += 2 {
		if a, b := people[order[i]], people[order[i+1]]; d.IntN(10) > 0 && a.surname != b.surname {
			a.spouse, b.spouse = b, a
		}
	}
}

// teach gives everybody a teacher who is at least ten years older and no namesake; some have none.
func teach(d *draw.Draws, people []*person) {
	byAge := slices.Clone(people)
	slices.SortStableFunc(byAge, func(a, b *person) int { return cmp.Compare(a.birthYear, b.birthYear) })
	for _, p := range people {
		older, _ := slices.BinarySearchFunc(byAge, p.birthYear-9, func(a *person, year int) int { return cmp.Compare(a.birthYear, year) })
		if older == 0 {
			continue
		}
		if q := byAge[d.IntN(older)]; q.surname != p.surname {
			p.teacher = q
		}
	}
}

// training returns the people whom training questions may mention.
func (w *world) training() []*person { return w.people[:len(w.people)-w.dev] }

// held returns the people whom only dev questions mention.
func (w *world) held() []*person { return w.people[len(w.people)-w.dev:] }

func (w *world) draws(part, i int) *draw.Draws { return draw.New(w.seed, draw.World, part, i) }

func pick[T any](d *draw.Draws, list []T) T { return list[d.IntN(len(list))] }

// relation is a kind of fact about a person.
type relation string

// The relations, named as templates name them.
const (
	birthplace   relation = "birthplace"
	birthYear    relation = "birthyear"
	homeCountry  relation = "home"
	trade        relation = "profession"
	field        relation = "subject"
	teacher      relation = "teacher"
	instrument   relation = "instrument"
	work         relation = "work"
	workYear     relation = "workyear"
	participated relation = "event"
	spouse       relation = "spouse"
)

// value returns what the relation holds for the person, or "" if nothing.
func (p *person) value(r relation) string {
	switch r {
	case birthplace:
		return p.birthplace.name
	case birthYear:
		return strconv.Itoa(p.birthYear)
	case homeCountry:
		return p.home
	case trade:
		return p.profession.name
	case field:
		return p.subject
	case instrument:
		return p.instrument
	case work:
		return p.work
	case workYear:
		return strconv.Itoa(p.workYear)
	case participated:
		return p.event.name
	case teacher, spouse:
		if q := p.relative(r); q != nil {
			return q.name()
		}
	}
	return ""
}

// relative returns the person's teacher or spouse, nil if there is none.
func (p *person) relative(r relation) *person {
	if r == teacher {
		return p.teacher
	}
	return p.spouse
}

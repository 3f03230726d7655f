package synthetic

import (
	"fmt"
	"slices"
	"strings"

	"harness.invalid/core/dataset/internal/draw"
	"harness.invalid/core/dataset/squad"
)

// Sizes of a passage.
const (
	mainSentences    = 3   // about the main person
	leastSentences   = 4   // in all
	mostSentences    = 6   // in all
	questionsAPiece  = 4   // most questions about one passage
	sharedTopicShare = 0.1 // sentences about others that have the topic of one about the main person
)

// passage is a context: sentences about a main person and one or two others.
type passage struct {
	*prose
	main *person
}

// newPassage tells about people[main] and others of the people.
func newPassage(d *draw.Draws, people []*person, main int) passage {
	t := passage{&prose{separator: " ", style: formal}, people[main]}
	topics := tellable(d, t.main)
	own := topics[:mainSentences]
	present := []*person{t.main}
	// The first of the others may come before the main person or cut them in two: the place must not reveal whom a
	// question means.
	before := d.IntN(mainSentences)
	t.tellTopics(d, t.main, own[:before])
	for left := leastSentences - mainSentences + d.IntN(mostSentences-leastSentences+1); left > 0; {
		sentences := left
		if len(present) == 1 {
			sentences = min(left, 1+d.IntN(2))
		}
		if p := other(d, people, present); p != nil {
			t.tellTopics(d, p, otherTopics(d, p, own, sentences))
			present = append(present, p)
		}
		left -= sentences
		t.tellTopics(d, t.main, own[before:])
		before = len(own)
	}
	return t
}

// otherTopics chooses topics for a person besides the main one, who has the topics own.
func otherTopics(d *draw.Draws, p *person, own []int, sentences int) []int {
	all := tellable(d, p)
	chosen := make([]int, 0, sentences)
	for range sentences {
		shared := d.Float64() < sharedTopicShare
		// There is always such a topic: nobody lacks more than one of eight, and the main person has four.
		i := slices.IndexFunc(all, func(topic int) bool { return slices.Contains(own, topic) == shared })
		chosen = append(chosen, all[i])
		all = slices.Delete(all, i, i+1)
	}
	return chosen
}

// tellable returns the topics on which there is something to say about a person, in random order.
func tellable(d *draw.Draws, p *person) []int {
	var list []int
	for _, topic := range d.Permutation(len(topics)) {
		if len(fitting(p, topics[topic])) > 0 {
			list = append(list, int(topic))
		}
	}
	return list
}

// tellTopics adds a sentence about the person for each topic on which there is something to say.
func (t *prose) tellTopics(d *draw.Draws, p *person, which []int) {
	for _, topic := range which {
		if len(fitting(p, topics[topic])) > 0 {
			t.tell(d, p, topics[topic])
		}
	}
}

// other returns a person who shares neither first name nor surname with those present, so that each part of a name
// tells them apart. It returns nil if there is none.
func other(d *draw.Draws, people, present []*person) *person {
	start := d.IntN(len(people))
	for i := range people {
		p := people[(start+i)%len(people)]
		if !slices.ContainsFunc(present, func(q *person) bool { return p.first == q.first || p.surname == q.surname }) {
			return p
		}
	}
	return nil
}

// answerable returns the facts that may be asked for: the context holds the answer in one place only, and says it
// of the person once.
func (t *passage) answerable() []fact {
	context := words(t.text.String())
	return slices.DeleteFunc(slices.Clone(t.facts), func(f fact) bool {
		answer := words(t.text.String()[f.start:f.end])
		n := 0
		for i := range context {
			if i+len(answer) <= len(context) && slices.Equal(context[i:i+len(answer)], answer) {
				n++
			}
		}
		return n != 1
	})
}

// words cuts text into words in lower case, without punctuation.
func words(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
}

// question is a question with the fact that answers it.
type question struct {
	text string
	fact fact
}

// ask makes questions, in any order of the facts.
func (t *passage) ask(d *draw.Draws) []question {
	facts := t.answerable()
	d.Shuffle(len(facts), func(i, j int) { facts[i], facts[j] = facts[j], facts[i] })
	var list []question
	for _, f := range facts[:min(questionsAPiece, len(facts))] {
		q := new(prose)
		q.say(d, f.about, pick(d, questionTexts(f.relation)))
		list = append(list, question{q.text.String(), f})
	}
	return list
}

// quest is a passage with its questions.
type quest struct {
	passage   passage
	questions []question
}

// quests makes passages about the people, each in turn, until there are as many questions as wanted.
func (w *world) quests(part int, people []*person, wanted int) []quest {
	var list []quest
	order := w.draws(part, 0).Permutation(len(people))
	for i := 0; wanted > 0; i++ {
		d := w.draws(part, 1+i)
		p := newPassage(d, people, int(order[i%len(order)]))
		q := p.ask(d)
		if len(q) == 0 {
			continue
		}
		q = q[:min(len(q), wanted)]
		wanted -= len(q)
		list = append(list, quest{p, q})
	}
	return list
}

// data returns quests as SQuAD has them, an article each.
func data(name string, quests []quest) *squad.Data {
	all := &squad.Data{Version: "1.1"}
	for i, q := range quests {
		context := q.passage.text.String()
		paragraph := squad.Paragraph{Context: context}
		for j, question := range q.questions {
			f := question.fact
			paragraph.Questions = append(paragraph.Questions, squad.Question{
				ID:      fmt.Sprintf("%s-%06d-%d", name, i, j),
				Text:    question.text,
				Answers: []squad.Answer{{Start: f.start, Text: context[f.start:f.end]}},
			})
		}
		all.Articles = append(all.Articles, squad.Article{Title: q.passage.main.name(), Paragraphs: []squad.Paragraph{paragraph}})
	}
	return all
}

package synthetic

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"harness.invalid/core/dataset/squad"
)

// quick is the world of the default job.
var quick = Settings{Seed: 1, People: 1200, Questions: 6000, DevQuestions: 400}

// write returns the three files of a world.
func write(t *testing.T, s Settings) (text string, train, dev *squad.Data) {
	t.Helper()
	var a, b, c bytes.Buffer
	if err := errors.Join(Text(&a, s), SQuAD(&b, &c, s)); err != nil {
		t.Fatal(err)
	}
	train, err := squad.Parse(b.Bytes(), "train")
	if err != nil {
		t.Fatal(err)
	}
	dev, err = squad.Parse(c.Bytes(), "dev")
	if err != nil {
		t.Fatal(err)
	}
	return a.String(), train, dev
}

// TestWrite: the files hold what Text and SQuAD write, the same in every run, and other bytes for another seed.
func TestWrite(t *testing.T) {
	var before [3][]byte
	for i, s := range []Settings{{1, 60, 50, 20}, {1, 60, 50, 20}, {2, 60, 50, 20}} {
		dir := filepath.Join(t.TempDir(), "new")
		f, err := Write(dir, s)
		if err != nil {
			t.Fatal(err)
		}
		var want [3]bytes.Buffer
		if err := errors.Join(Text(&want[0], s), SQuAD(&want[1], &want[2], s)); err != nil {
			t.Fatal(err)
		}
		for j, path := range []string{f.Text, f.Train, f.Dev} {
			got, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want[j].Bytes()) {
				t.Errorf("%s differs from what is written to a stream", path)
			}
			if equal := bytes.Equal(got, before[j]); i > 0 && equal != (i == 1) {
				t.Errorf("%s of %+v is equal to that of the world before: %v", path, s, equal)
			}
			before[j] = got
		}
	}
}

func TestSettings(t *testing.T) {
	for _, c := range []struct {
		settings Settings
		want     string
	}{
		{Settings{People: 49, Questions: 1, DevQuestions: 1}, "people is 49, want 50 to 6400"},
		{Settings{People: 6401, Questions: 1, DevQuestions: 1}, "people is 6401, want 50 to 6400"},
		{Settings{People: 50, Questions: 0, DevQuestions: 1}, "questions is 0, want 1 to"},
		{Settings{People: 50, Questions: 1, DevQuestions: -1}, "dev questions is -1, want 1 to"},
	} {
		_, err := Write(t.TempDir(), c.settings)
		for _, err := range []error{err, Text(new(bytes.Buffer), c.settings), SQuAD(new(bytes.Buffer), new(bytes.Buffer), c.settings)} {
			if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v: error is %v, want %q", c.settings, err, c.want)
			}
		}
	}
	for _, people := range []int{minPeople, maxPeople()} {
		if err := SQuAD(new(bytes.Buffer), new(bytes.Buffer), Settings{People: people, Questions: 1, DevQuestions: 1}); err != nil {
			t.Error(err)
		}
	}
}

// TestPeople: names are unique, and facts about one person do not contradict each other.
func TestPeople(t *testing.T) {
	w := newWorld(3, 1000)
	names := map[string]bool{}
	for i, p := range w.people {
		if names[p.name()] {
			t.Errorf("two people are called %s", p.name())
		}
		names[p.name()] = true
		if p.home == p.birthplace.country || p.workYear < p.birthYear+20 {
			t.Errorf("%s was born in %s in %d, lives in %s and made a work in %d", p.name(), p.birthplace.name, p.birthYear, p.home, p.workYear)
		}
		if p.teacher != nil && p.teacher.birthYear > p.birthYear-10 {
			t.Errorf("%s, born %d, has a teacher born %d", p.name(), p.birthYear, p.teacher.birthYear)
		}
		if p.spouse == p || p.spouse != nil && p.spouse.spouse != p {
			t.Errorf("%s is married to somebody who is not", p.name())
		}
		for _, q := range []*person{p.teacher, p.spouse} {
			if q != nil && slices.Contains(w.held(), q) != (i >= len(w.training())) {
				t.Errorf("%s and %s are training and dev person", p.name(), q.name())
			}
		}
	}
}

// TestQuestions reads contexts and questions back and answers each from what its context says: there is one fact
// that fits, it is true, it is the answer, and the answer's words are nowhere else.
func TestQuestions(t *testing.T) {
	read := newReader()
	for _, s := range []Settings{{1, 1200, 2000, 400}, {2, minPeople, 1001, 101}, {3, 300, 1500, 33}} {
		w := newWorld(s.Seed, s.People)
		people := map[string]*person{}
		for _, p := range w.people {
			people[p.name()] = p
		}
		_, train, dev := write(t, s)
		if got := [2]int{train.Questions(), dev.Questions()}; got != [2]int{s.Questions, s.DevQuestions} {
			t.Errorf("%+v: %d questions and %d for evaluation", s, got[0], got[1])
		}
		hard, other := 0, 0
		for _, d := range []*squad.Data{train, dev} {
			for _, a := range d.Articles {
				c := a.Paragraphs[0].Context
				facts, err := read.context(w, c)
				if err != nil {
					t.Fatalf("%s: %v", c, err)
				}
				for _, f := range facts {
					if people[f.name].value(f.relation) != f.value {
						t.Fatalf("%s: %s of %s is not %s", c, f.relation, f.name, f.value)
					}
				}
				for _, q := range a.Paragraphs[0].Questions {
					name, asked, err := read.question(q.Text)
					if err != nil {
						t.Fatal(err)
					}
					var fit []said
					rivals := 0
					for _, f := range facts {
						switch {
						case f.relation == asked && f.name == name:
							fit = append(fit, f)
						case f.relation == asked:
							rivals = 1
						}
					}
					hard += rivals
					if name != a.Title {
						other++
					}
					answer := q.Answers[0]
					at := string([]rune(c)[answer.Start:])
					if len(fit) != 1 || fit[0].value != answer.Text || fit[0].start != answer.Start || !strings.HasPrefix(at, answer.Text) {
						t.Errorf("%s %s: answer %+v, and the context says %+v", c, q.Text, answer, fit)
					}
					if n := strings.Count(" "+strings.Join(tokenize(c), "  ")+" ", " "+strings.Join(tokenize(answer.Text), "  ")+" "); n != 1 {
						t.Errorf("%s %s: %s comes %d times", c, q.Text, answer.Text, n)
					}
					if n := len(words(answer.Text)); n > 2 {
						t.Errorf("answer %s has %d words", answer.Text, n)
					}
				}
			}
		}
		if share := float64(hard) / float64(s.Questions+s.DevQuestions); share < 0.08 || share > 0.15 {
			t.Errorf("%+v: %.2f of the questions are decided by the name alone, want 0.08 to 0.15", s, share)
		}
		t.Logf("%+v: hard %.3f, about others %.3f", s, float64(hard)/float64(s.Questions+s.DevQuestions),
			float64(other)/float64(s.Questions+s.DevQuestions))
	}
}

// TestDisjoint: nobody is in both files of questions, in whatever role; the text's quizzes are about training people.
func TestDisjoint(t *testing.T) {
	w := newWorld(quick.Seed, quick.People)
	var files [2]bytes.Buffer
	if err := SQuAD(&files[0], &files[1], quick); err != nil {
		t.Fatal(err)
	}
	text, _, _ := write(t, quick)
	for i, people := range [][]*person{w.training(), w.held()} {
		for _, p := range people {
			if strings.Contains(files[1-i].String(), p.name()) {
				t.Errorf("%s is in both files", p.name())
			}
			if !strings.Contains(text, p.name()) {
				t.Errorf("%s is not in the text", p.name())
			}
		}
	}
	for line := range strings.Lines(text) {
		if _, _, asks := strings.Cut(line, "?"); !asks {
			continue
		}
		for _, p := range w.held() {
			if strings.Contains(line, p.name()) {
				t.Errorf("quiz about a dev person: %s", line)
			}
		}
	}
}

// TestSizes holds what training relies on: few words, none much more frequent than others, and passages that fit
// into 64 tokens or little more.
func TestSizes(t *testing.T) {
	text, train, dev := write(t, quick)
	count := map[string]int{}
	tokens, most := 0, ""
	for _, token := range tokenize(text) {
		tokens++
		if count[token]++; count[token] > count[most] {
			most = token
		}
	}
	if len(count) > 700 {
		t.Errorf("text has %d different words, want at most 700", len(count))
	}
	if share := float64(count[most]) / float64(tokens); share > 0.12 {
		t.Errorf("%q is %.3f of the text, want at most 0.12", most, share)
	}
	sentences, documents := 0, 0
	for line := range strings.Lines(text) {
		if line == "\n" {
			documents++
		} else {
			sentences++
		}
	}
	total, contexts := 0, 0
	for _, d := range []*squad.Data{train, dev} {
		for _, a := range d.Articles {
			p := a.Paragraphs[0]
			n := len(tokenize(p.Context))
			total, contexts = total+n, contexts+1
			if n < 25 || n > 70 {
				t.Errorf("context has %d tokens, want 25 to 70: %s", n, p.Context)
			}
			if n := strings.Count(p.Context, "."); n < leastSentences || n > mostSentences {
				t.Errorf("context has %d sentences: %s", n, p.Context)
			}
			for _, token := range tokenize(p.Context) {
				if count[token] == 0 {
					t.Errorf("%q is in a context and not in the text", token)
				}
			}
			for _, q := range p.Questions {
				for _, token := range tokenize(q.Text) {
					if count[token] == 0 {
						t.Errorf("%q is in a question and not in the text", token)
					}
				}
			}
		}
	}
	t.Logf("%d tokens, %d words, %q %.3f; %d sentences, %d documents; mean context %.1f", tokens, len(count), most,
		float64(count[most])/float64(tokens), sentences, documents, float64(total)/float64(contexts))
}

// tokenize cuts text into words and punctuation in lower case, as a vocabulary of whole words would.
func tokenize(text string) []string {
	var spaced strings.Builder
	for _, r := range strings.ToLower(text) {
		if strings.ContainsRune(".,?:'", r) {
			fmt.Fprintf(&spaced, " %c ", r)
		} else {
			spaced.WriteRune(r)
		}
	}
	return strings.Fields(spaced.String())
}

// TestWords: a word is in one list only, and is plain ASCII.
func TestWords(t *testing.T) {
	var cities, nations, trades, kinds []string
	for _, c := range countries {
		nations = append(nations, c.name)
		cities = append(cities, c.cities[:]...)
	}
	for _, p := range professions {
		trades, kinds = append(trades, p.name), append(kinds, p.work)
	}
	in := map[string]int{}
	for i, list := range [][]string{womensNames, mensNames, surnames, nations, cities, trades, kinds, subjects, instruments,
		titleAdjectives, titleNouns,
		eventNames, eventKinds, months} {
		for _, word := range list {
			if other, ok := in[strings.ToLower(word)]; ok {
				t.Errorf("%s is in lists %d and %d", word, other, i)
			}
			in[strings.ToLower(word)] = i
			if w := words(word); len(w) != 1 || w[0] != strings.ToLower(word) {
				t.Errorf("%q is not a word of plain letters", word)
			}
		}
	}
}

func ExampleText() {
	var text strings.Builder
	if err := Text(&text, Settings{Seed: 1, People: 1200, Questions: 1, DevQuestions: 1}); err != nil {
		panic(err)
	}
	documents := strings.Split(text.String(), "\n\n")
	fmt.Println(documents[0])
	fmt.Println()
	fmt.Println(documents[1])
	// Output:
	// Karen Dawson's place of birth is Bordeaux.
	// Karen Dawson is known for the film Wandering Mountain.
	// Dawson's teacher was Felix Keller.
	// Dawson left Bordeaux and moved to Hungary.
	// Her favourite instrument is the cello.
	// Karen Dawson's husband is Carl Lowell.
	// Karen Dawson and her husband Carl Lowell have two children.
	// Karen Dawson is a director by profession.
	// She lives in Hungary now.
	// Bordeaux is a city in France.
	// Karen Dawson took part in the Pearl Games three times.
	//
	// In 1995, Karen Dawson finished the film Wandering Mountain.
	// Dawson's favourite instrument is the cello.
	// Max Ingram's best known work is the dessert Painted Orchard.
	// In the evening Ingram plays the accordion.
	// Which instrument does Karen Dawson play? Answer: cello.
	// In what year did Karen Dawson finish the film? Answer: 1995.
	// Which work is Max Ingram known for? Answer: Painted Orchard.
}

func ExampleSQuAD() {
	var train, dev bytes.Buffer
	if err := SQuAD(&train, &dev, Settings{Seed: 1, People: 1200, Questions: 4, DevQuestions: 1}); err != nil {
		panic(err)
	}
	d, err := squad.Parse(train.Bytes(), "train.json")
	if err != nil {
		panic(err)
	}
	p := d.Articles[0].Paragraphs[0]
	fmt.Println(strings.ReplaceAll(p.Context, ". ", ".\n"))
	for _, q := range p.Questions {
		fmt.Println(q.Text, q.Answers[0].Text, q.Answers[0].Start)
	}
	// Output:
	// Every June Peter Hudson visits the Velvet Games.
	// Peter Hudson is married to Maria Blake.
	// Ada Jensen's favourite instrument is the piano.
	// Peter Hudson has a small house in Norway.
	// Who is Peter Hudson married to? Maria Blake 76
	// At which event was Peter Hudson a guest? Velvet Games 35
	// In which country does Peter Hudson live? Norway 171
	// What does Ada Jensen play? piano 130
}

package synthetic

// A template is a sentence with slots in braces. A relation's name stands for its value for the person whom the
// sentence is about; apart from these there are
//
//	{S} {s}   the person, as subject at the sentence's start or within: Anna Keller, Keller, She, she
//	{S's}     the person's, at the sentence's start: Anna Keller's, Keller's, Her
//	{n}       the person's full name
//	{his}     his or her, of the person
//	{a}       the article of the profession
//	{kind}    the kind of work that the person makes
//	{partner} husband or wife: what the spouse is
//	{birthcountry} {eventplace} {eventmonth} of the birthplace and the event

// topics are what a sentence can be about, with several wordings each. Topics do not share relations. Every relation
// except teacher and spouse has its own vocabulary of values, so the kind of a word tells which question it answers.
var topics = [][]string{
	{
		"{S} was born in {birthplace}.",
		"{S} was born in {birthplace} in {birthyear}.",
		"{S} was born in {birthyear}.",
		"In {birthyear}, {s} was born in {birthplace}.",
		"{S's} place of birth is {birthplace}.",
	},
	{
		"{S} is {a} {profession} by profession.",
		"{S} works as {a} {profession}.",
		"{S} became {a} {profession} at an early age.",
		"{S} earns {his} living as {a} {profession}.",
	},
	{
		"{S} lives in {home} now.",
		"{S's} home is in {home}.",
		"{S} has a small house in {home}.",
		"Today {s} lives in the north of {home}.",
	},
	{
		"{S} studied {subject} for some years.",
		"{S} studied {subject} with {teacher}.",
		"{S} learned {subject} from {teacher}.",
		"{S} took a degree in {subject} at night school.",
		"{S's} teacher was {teacher}.",
	},
	{
		"{S} plays the {instrument} very well.",
		"In the evening {s} plays the {instrument}.",
		"{S} learned to play the {instrument} as a child.",
		"{S's} favourite instrument is the {instrument}.",
	},
	{
		"{S} is known for the {kind} {work}.",
		"{S} finished the {kind} {work} in {workyear}.",
		"In {workyear}, {s} finished the {kind} {work}.",
		"{S's} best known work is the {kind} {work}.",
	},
	{
		"{S} won a prize at the {event}.",
		"{S} took part in the {event} three times.",
		"{S} was a guest at the {event} last year.",
		"Every {eventmonth} {s} visits the {event}.",
	},
	{
		"{S} is married to {spouse}.",
		"{S} married {spouse} at a young age.",
		"{S's} {partner} is {spouse}.",
	},
}

// retellings say again, in the text, what sentences about single topics say: words that can be found by reading the
// rest of the document.
var retellings = []string{
	"{S} left {birthplace} and moved to {home}.",
	"There are many people in {birthplace} who remember {n}.",
	"The {event} is held in {eventplace} every {eventmonth}.",
	"{S} and {his} {partner} {spouse} have two children.",
	"{S} wrote to {teacher} about {subject} and the {instrument}.",
	"The {kind} {work} was shown at the {event}.",
	"{S's} students of {subject} often come to {home}.",
	"For {a} {profession}, {s} plays the {instrument} well.",
	"{birthplace} is a city in {birthcountry}.",
}

// questions of each relation, in an order that does not change.
var questions = []struct {
	relation relation
	texts    []string
}{
	{birthplace, []string{"Where was {n} born?", "In which city was {n} born?", "What is the place of birth of {n}?"}},
	{birthYear, []string{"When was {n} born?", "In what year was {n} born?"}},
	{homeCountry, []string{"Where does {n} live?", "In which country does {n} live?", "Which country is the home of {n}?"}},
	{trade, []string{"What is the profession of {n}?", "What does {n} work as?", "Which profession does {n} have?"}},
	{field, []string{"What did {n} study?", "Which subject did {n} study?"}},
	{teacher, []string{"Who was the teacher of {n}?", "Who taught {n}?"}},
	{instrument, []string{"Which instrument does {n} play?", "What does {n} play?"}},
	{work, []string{"Which work is {n} known for?", "What is the best known work of {n}?"}},
	{workYear, []string{"When did {n} finish the {kind}?", "In what year did {n} finish the {kind}?"}},
	{participated, []string{"Which event did {n} take part in?", "At which event was {n} a guest?", "Which event does {n} visit?"}},
	{spouse, []string{"Who is {n} married to?", "Who is the {partner} of {n}?"}},
}

// questionTexts returns the ways to ask for a relation.
func questionTexts(r relation) []string {
	for _, q := range questions {
		if q.relation == r {
			return q.texts
		}
	}
	return nil
}

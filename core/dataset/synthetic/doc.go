// Package synthetic makes up a small world of people, places and events from a seed, and writes it in the file
// formats of real data: text for pre-training, and questions in SQuAD's JSON. The default job learns from it
// without a download, through the same code as real data.
//
// A document of the text tells a person's life, or something of two people with questions and answers, or guides to
// a city. Sentences of a document share their people or place, so next sentences can be told from others; names,
// places and facts come again within a document, events are bound to cities, cities to countries and works to
// professions, so masked words can be found.
//
//	Karen Dawson's place of birth is Bordeaux.
//	Karen Dawson is known for the film Wandering Mountain.
//	Dawson's teacher was Felix Keller.
//	Dawson left Bordeaux and moved to Hungary.
//	Her favourite instrument is the cello.
//
// A passage has three sentences about one person and one to three about one or two others.
//
//	Every June Peter Hudson visits the Velvet Games. Peter Hudson is married to Maria Blake. Ada Jensen's favourite instrument is
//	the piano. Peter Hudson has a small house in Norway.
//
//	In which country does Peter Hudson live?  Norway
//	What does Ada Jensen play?                piano
//
// In nearly nine questions of ten the relation alone finds the answer, as in these: nobody else's country is told.
// In the rest the context tells the same of another person, and the name decides. More of these, and longer
// passages, make the number of steps before a small model finds answers at all vary with the seed by hundreds. An
// answer is one or two words that the context holds once.
//
// People are either training or dev people, one in ten. Whoever is asked for, told about or given as an answer in
// one file of questions does not appear in the other. The text tells the lives of all, but its quizzes ask only for
// training people.
//
// The text of 1200 people has 29,713 sentences in 3,625 documents, 289,747 words and punctuation marks, 559
// different ones; the most frequent, the full stop, makes up 10.3%. Contexts have 46 on average.
package synthetic

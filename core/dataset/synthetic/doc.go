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
// In nearly nine questions of ten the relation alone determines the answer, as in these: the context names no other
// person's country. In the rest the context states the same relation for another person, so the name decides. With
// more of these, or with longer passages, the number of steps before a small model finds any answers would vary by
// hundreds from seed to seed. An answer is one or two words that occur once in the context.
//
// One person in ten is a dev person, the others are training people. Everyone who occurs in one file of questions, in
// a question, passage or answer, is absent from the other. The text tells the lives of all, but its quizzes ask only
// about training people.
//
// The text of 1200 people has 29,713 sentences in 3,625 documents, 289,747 words and punctuation marks, 559
// different ones; the most frequent, the full stop, makes up 10.3%. Contexts have 46 on average.
package synthetic

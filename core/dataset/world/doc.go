// Package world makes up a small world of people, places and events from a seed, and writes it in the file formats of real data: text for
// pre-training, and questions in SQuAD's JSON.
package world

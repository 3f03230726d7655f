package train

import (
	"fmt"

	"harness.invalid/core/dataset/pretraining"
	"harness.invalid/core/wordpiece"
)

// LearnVocab learns a vocabulary of at most size tokens from text files and writes it to path. It holds at most
// alphabet characters, the most frequent ones (0: 1000). LearnVocab returns the number of tokens, and the share of
// words with characters that the vocabulary lacks.
func LearnVocab(path string, text []string, size, alphabet int, lowercase bool) (tokens int, unknown float64, err error) {
	files, err := pretraining.Files(text)
	if err != nil {
		return 0, 0, fmt.Errorf("text %w", err)
	}
	v, unknown, err := learnVocab(files, size, alphabet, lowercase)
	if err != nil {
		return 0, 0, err
	}
	return v.Len(), unknown, v.Save(path)
}

func learnVocab(text []string, size, alphabet int, lowercase bool) (v *wordpiece.Vocab, unknown float64, err error) {
	t, err := wordpiece.NewTrainer(wordpiece.TrainOptions{Size: size, Alphabet: alphabet, Options: wordpiece.Google(lowercase)})
	if err != nil {
		return nil, 0, err
	}
	for _, name := range text {
		if err := learnFrom(t, name); err != nil {
			return nil, 0, err
		}
	}
	v, err = t.Train()
	return v, t.Unknown, err
}

func learnFrom(t *wordpiece.Trainer, name string) error {
	f, err := pretraining.OpenText(name)
	if err != nil {
		return fmt.Errorf("text %w", err)
	}
	defer f.Close()
	if _, err := t.ReadFrom(f); err != nil {
		return fmt.Errorf("text %s: %w", name, err)
	}
	return nil
}

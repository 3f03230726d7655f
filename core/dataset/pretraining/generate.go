package pretraining

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

	"harness.invalid/core/dataset/mt19937"
	"harness.invalid/core/wordpiece"
)

// Generation is a run of the published generator: settings and instances. As JSON it is one object, {"settings",
// "instances"}.
type Generation struct {
	Settings  GenerationSettings `json:"settings"`
	Instances []Instance         `json:"instances"`
}

// GenerationSettings are the flags of create_pretraining_data.py, with its names and, for text and vocabulary, the
// files' names.
type GenerationSettings struct {
	Text           string  `json:"text"`
	Vocab          string  `json:"vocab"`
	RandomSeed     int64   `json:"random_seed"`
	DupeFactor     int     `json:"dupe_factor"`
	MaxSeqLength   int     `json:"max_seq_length"`
	MaxPredictions int     `json:"max_predictions_per_seq"`
	ShortSeqProb   float64 `json:"short_seq_prob"`
	MaskedLMProb   float64 `json:"masked_lm_prob"`
	WholeWord      bool    `json:"do_whole_word_mask"`
	Instances      int     `json:"instances"` // number of instances: set by Generate
}

// Generate makes the instances that create_pretraining_data.py makes of the same text, settings and seed, in the
// same order. The whole text is read into memory; errors call it name. For equality the tokenizer must have the
// options wordpiece.Google(true).
func Generate(text io.Reader, name string, t *wordpiece.Tokenizer, g GenerationSettings) (*Generation, error) {
	if g.DupeFactor < 1 {
		return nil, fmt.Errorf("pretraining: dupe_factor is %d, want at least 1", g.DupeFactor)
	}
	m, err := newMaker(t.Vocab(), Settings{
		MaxLength: g.MaxSeqLength, MaxPredictions: g.MaxPredictions,
		ShortProb: g.ShortSeqProb, MaskedProb: g.MaskedLMProb, WholeWord: g.WholeWord,
	})
	if err != nil {
		return nil, err
	}
	docs, err := readDocuments(text, name, t)
	if err != nil {
		return nil, err
	}
	r := mt19937.New(g.RandomSeed)
	r.Shuffle(len(docs), func(i, j int) { docs[i], docs[j] = docs[j], docs[i] })
	instances := []Instance{}
	for range g.DupeFactor {
		for d := range docs {
			m.document(docs, d, r, func(i Instance) { instances = append(instances, i) })
		}
	}
	r.Shuffle(len(instances), func(i, j int) { instances[i], instances[j] = instances[j], instances[i] })
	g.Instances = len(instances)
	return &Generation{Settings: g, Instances: instances}, nil
}

// GenerateFile is Generate from a file.
func GenerateFile(path string, t *wordpiece.Tokenizer, g GenerationSettings) (*Generation, error) {
	f, err := OpenText(path)
	if err != nil {
		return nil, fmt.Errorf("pretraining: %w", err)
	}
	defer f.Close()
	return Generate(f, path, t, g)
}

// WriteTo writes the generation as JSON, instance by instance.
func (g *Generation) WriteTo(w io.Writer) (int64, error) {
	counted := &counter{w: w}
	b := bufio.NewWriter(counted)
	settings, err := json.Marshal(g.Settings)
	if err != nil {
		return 0, err
	}
	b.WriteString(`{"settings":`)
	b.Write(settings)
	b.WriteString(`,"instances":[`)
	for i, instance := range g.Instances {
		if i > 0 {
			b.WriteByte(',')
		}
		data, err := json.Marshal(instance)
		if err != nil {
			return counted.n, err
		}
		b.Write(data)
	}
	b.WriteString("]}\n")
	err = b.Flush()
	return counted.n, err
}

type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// readDocuments reads documents that have at least one token.
func readDocuments(text io.Reader, name string, t *wordpiece.Tokenizer) ([]document, error) {
	var docs []document
	var doc document
	end := func() {
		if len(doc.ends) > 0 {
			docs = append(docs, doc)
		}
		doc = document{}
	}
	err := eachLine(text, name, func(line []byte, _ int64) {
		sentence := trim(string(line))
		if sentence == "" {
			end()
			return
		}
		doc.add(t, sentence)
	})
	if err != nil {
		return nil, err
	}
	end()
	if len(docs) == 0 {
		return nil, fmt.Errorf("text %s: no sentence: %w", name, ErrInvalid)
	}
	return docs, nil
}

package train

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/checkpoint/huggingface"
	"harness.invalid/core/dataset"
	"harness.invalid/core/dataset/pretraining"
	"harness.invalid/core/dataset/synthetic"
	"harness.invalid/core/dataset/tasks"
	"harness.invalid/core/durable"
	"harness.invalid/core/recipe"
	"harness.invalid/core/wordpiece"
	"harness.invalid/harness/evaluation"
	"harness.invalid/results"
)

// Data is what the phases of a recipe are trained and evaluated on, opened once for all runs of a comparison.
type Data struct {
	Tokenizer *wordpiece.Tokenizer
	// Digest is a SHA-256 over the contents of all files: runs on other data can't be compared.
	Digest string

	corpus   *pretraining.Corpus
	prepared []*pretraining.Prepared
	tasks    map[string]split

	folderTokenizer huggingface.Tokenizer // Tokenizer as a model folder has it
	model           *huggingface.Folder   // to start from; nil: initial values
	modelName       string
}

// split are the examples of a task.
type split struct{ train, dev *evaluation.Data }

// OpenData opens the files of a recipe. The made-up world of generated data is written to dir first, and a vocabulary is learned from the text
// when none is given. told is told what takes time.
func OpenData(r *recipe.Recipe, dir string, told func(what string)) (_ *Data, err error) {
	files := r.Data.Files
	if r.Data.Kind == recipe.GeneratedData {
		told("generating data")
		g := r.Data.Generated
		w, err := synthetic.Write(dir, synthetic.Settings{Seed: uint64(g.Seed), People: g.People, Questions: g.Questions, DevQuestions: g.DevQuestions})
		if err != nil {
			return nil, err
		}
		files = recipe.Files{Text: []string{w.Text}}
		files.SQuAD.Train, files.SQuAD.Dev = []string{w.Train}, []string{w.Dev}
	}
	d := new(Data)
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	if err := wanted(r, files); err != nil {
		return nil, err
	}
	sum := sha256.New()
	for _, dir := range files.Prepared {
		p, err := pretraining.OpenPrepared(dir)
		if err != nil {
			return nil, err
		}
		if p.Lowercase != r.Vocab.Lowercase {
			return nil, fmt.Errorf("prepared data %s: it was made with lowercase %v, recipe %s has vocab.lowercase %v", dir, p.Lowercase, r.Name, r.Vocab.Lowercase)
		}
		d.prepared = append(d.prepared, p)
		fmt.Fprintf(sum, "prepared %s\n", p.Digest())
	}
	if files.Vocab == "" && len(d.prepared) > 0 {
		files.Vocab = d.prepared[0].VocabFile()
	}
	if err := d.openModel(&files, sum); err != nil {
		return nil, err
	}
	if d.model == nil && files.Vocab == "" {
		told("learning a vocabulary")
		files.Vocab = filepath.Join(dir, "vocab.txt")
		if _, _, err := LearnVocab(files.Vocab, files.Text, r.Vocab.Size, 0, r.Vocab.Lowercase); err != nil {
			return nil, err
		}
	}
	if err := d.openTokenizer(&files, r.Vocab.Lowercase, sum); err != nil {
		return nil, err
	}
	if len(files.Text) > 0 {
		told("reading the text")
		if d.corpus, err = pretraining.Open(files.Text, nil); err != nil {
			return nil, err
		}
		fmt.Fprintf(sum, "text %s\n", d.corpus.Digest())
	}
	if err := d.openTasks(r, &files, sum); err != nil {
		return nil, err
	}
	d.Digest = hex.EncodeToString(sum.Sum(nil))
	return d, nil
}

// openModel opens the folder with the parameters to start from, if there is one.
func (d *Data) openModel(files *recipe.Files, sum io.Writer) (err error) {
	if files.Model == "" {
		return nil
	}
	if d.model, err = huggingface.Open(files.Model); err != nil {
		return err
	}
	d.modelName = files.Model
	digest, err := folderDigest(files.Model)
	fmt.Fprintf(sum, "model %s\n", digest)
	return err
}

// openTokenizer reads the vocabulary that is given, or else the model's tokenizer.
func (d *Data) openTokenizer(files *recipe.Files, lowercase bool, sum io.Writer) (err error) {
	if files.Vocab == "" {
		d.folderTokenizer, err = huggingface.ReadTokenizer(files.Model)
	} else {
		d.folderTokenizer.Options = wordpiece.Google(lowercase)
		d.folderTokenizer.Vocab, err = wordpiece.Load(files.Vocab)
	}
	if err != nil {
		return err
	}
	if d.Tokenizer, err = d.folderTokenizer.New(); err != nil {
		return err
	}
	text := sha256.New()
	if _, err := d.folderTokenizer.Vocab.WriteTo(text); err != nil {
		return err
	}
	fmt.Fprintf(sum, "vocab %x\n", text.Sum(nil))
	return nil
}

// openTasks reads the examples of all tasks that phases are fine-tuned on.
func (d *Data) openTasks(r *recipe.Recipe, files *recipe.Files, sum io.Writer) (err error) {
	d.tasks = map[string]split{}
	for i := range r.Phases {
		t := r.Phases[i].FineTuning()
		if t == nil {
			continue
		}
		if _, ok := d.tasks[t.Name]; ok {
			continue
		}
		var s split
		f := files.Of(t.Name)
		if s.train, err = evaluation.Read(t, f.Train...); err != nil {
			return err
		}
		if s.dev, err = evaluation.Read(t, f.Dev...); err != nil {
			return err
		}
		if !s.dev.Labelled() {
			return fmt.Errorf("task %s: %s has examples without labels, which nothing can be measured on", t.Name, strings.Join(f.Dev, ", "))
		}
		fmt.Fprintf(sum, "%s.train %s\n%s.dev %s\n", t.Name, s.train.Digest(), t.Name, s.dev.Digest())
		d.tasks[t.Name] = s
	}
	return nil
}

// Close closes the files.
func (d *Data) Close() error {
	var errs []error
	if d.corpus != nil {
		errs = append(errs, d.corpus.Close())
	}
	if d.model != nil {
		errs = append(errs, d.model.Close())
	}
	return errors.Join(errs...)
}

// wanted reports all files that a recipe needs and that were not given.
func wanted(r *recipe.Recipe, f recipe.Files) error {
	var missing []string
	need := func(name string, given bool) {
		for _, m := range missing {
			given = given || m == name
		}
		if !given {
			missing = append(missing, name)
		}
	}
	for _, p := range r.Phases {
		switch p.Task {
		case bert.Pretraining:
			if r.Data.Kind == recipe.PreparedData {
				need("prepared", len(f.Prepared) > 0)
			} else {
				need("text", len(f.Text) > 0)
			}
		default:
			if t := p.FineTuning(); t != nil {
				need(t.Name+".train", len(f.Of(t.Name).Train) > 0)
				need(t.Name+".dev", len(f.Of(t.Name).Dev) > 0)
			}
		}
	}
	if f.Vocab == "" && f.Model == "" && len(f.Prepared) == 0 {
		need("text", len(f.Text) > 0)
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("recipe %s needs files that were not given: %s (--data %s=FILE)", r.Name, strings.Join(missing, ", "), missing[0])
}

// LearnVocab learns a vocabulary of at most size tokens from text files and writes it to path. At most alphabet characters have a place in it, the most
// frequent ones (0: 1000). It returns the number of tokens, and the share of the words that the alphabet cannot write.
func LearnVocab(path string, text []string, size, alphabet int, lowercase bool) (tokens int, unknown float64, err error) {
	t, err := wordpiece.NewTrainer(wordpiece.TrainOptions{Size: size, Alphabet: alphabet, Options: wordpiece.Google(lowercase)})
	if err != nil {
		return 0, 0, err
	}
	for _, name := range text {
		if err := learnFrom(t, name); err != nil {
			return 0, 0, err
		}
	}
	v, err := t.Train()
	if err != nil {
		return 0, 0, err
	}
	return v.Len(), t.Unknown, v.Save(path)
}

func learnFrom(t *wordpiece.Trainer, name string) error {
	f, err := pretraining.OpenText(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := t.ReadFrom(f); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// set is the data of one phase.
type set interface {
	// sequences is the number of training sequences of an epoch, as far as it is known: for text that was not prepared it is not, and phases over it
	// count steps.
	sequences() int
	source() (dataset.Source, error)
	// evaluate measures the model that a session holds. When final is set it also writes what belongs into the run's folder, where path says, under the
	// phase's name.
	evaluate(ctx context.Context, s backend.Session, final bool, path func(string) string, phase string) (map[string]float64, error)
	// evaluated is the number of sequences of an evaluation.
	evaluated() int
	// notes are doubts about the data that do not stop the run.
	notes() []string
}

// open makes the data of a phase.
func (d *Data) open(r *recipe.Recipe, p *recipe.Phase, seed uint64) (set, error) {
	switch p.Task {
	case bert.Pretraining:
		return d.openText(r, p, seed)
	}
	if t := p.FineTuning(); t != nil {
		return d.openTask(d.tasks[t.Name], p, seed)
	}
	return nil, fmt.Errorf("task %s: there is no data for it: dataset is not given, want one of %s", p.Task, strings.Join(tasks.Names(), ", "))
}

// sizes is the number of sequences of all batches.
func sizes(batches []*bert.Batch) int {
	n := 0
	for _, b := range batches {
		n += b.Size
	}
	return n
}

// textSet is masked language modelling and next sentence prediction on text.
type textSet struct {
	deal    dataset.Source
	known   int // sequences of an epoch; 0: not known before
	held    []*bert.Batch
	unigram float64
}

// textSource deals text, or what was prepared of it.
type textSource interface {
	dataset.Source
	Evaluation(sequences, batch int) ([]*bert.Batch, error)
}

func (d *Data) openText(r *recipe.Recipe, p *recipe.Phase, seed uint64) (*textSet, error) {
	t := new(textSet)
	deal, err := d.textSource(r, p, seed)
	if err != nil {
		return nil, err
	}
	t.deal = deal
	if prepared, ok := deal.(*pretraining.PreparedSource); ok {
		t.known = int(prepared.Sequences())
	}
	sequences := p.Evaluation.Sequences
	if sequences == 0 {
		sequences = math.MaxInt32
	}
	t.held, err = deal.Evaluation(sequences, p.Evaluation.Batch)
	t.unigram = unigramLoss(t.held)
	if p.SequencesPerPack > 1 && err == nil {
		s := pretraining.Settings{MaxLength: p.Length, MaxPredictions: p.MaxPredictions}
		t.deal, err = pretraining.Pack(deal, s, p.GlobalBatch, p.SequencesPerPack, seed)
	}
	return t, err
}

// textSource opens the text of a phase, or the data that was prepared for its length.
func (d *Data) textSource(r *recipe.Recipe, p *recipe.Phase, seed uint64) (textSource, error) {
	m := p.Masking
	settings := pretraining.Settings{MaxLength: p.Length, MaxPredictions: p.MaxPredictions, ShortProb: m.ShortSeqProb, MaskedProb: m.MaskedLMProb, WholeWord: m.WholeWord}
	dynamic := m.Kind == recipe.DynamicMasking
	batch := p.GlobalBatch
	if p.SequencesPerPack > 1 {
		batch = 1 // what is packed comes one by one
	}
	if r.Data.Kind != recipe.PreparedData {
		o := pretraining.Options{Settings: settings, Batch: batch, Seed: seed, DupeFactor: m.DupeFactor, HeldOut: r.Data.HeldOut}
		if dynamic {
			o.DupeFactor = 0
		}
		return pretraining.NewSource(d.corpus, d.Tokenizer, o)
	}
	var lengths []string
	for _, prepared := range d.prepared {
		if prepared.Length == p.Length {
			return prepared.Source(d.Tokenizer, pretraining.Dealing{Settings: settings, Batch: batch, Seed: seed, Dynamic: dynamic})
		}
		lengths = append(lengths, fmt.Sprint(prepared.Length))
	}
	return nil, fmt.Errorf("the prepared data has sequences of %s tokens, want %d: harness data prepare --length %d", strings.Join(lengths, ", "), p.Length, p.Length)
}

func (t *textSet) sequences() int                  { return t.known }
func (t *textSet) source() (dataset.Source, error) { return t.deal, nil }
func (t *textSet) notes() []string                 { return nil }
func (t *textSet) evaluated() int                  { return sizes(t.held) }

func (t *textSet) evaluate(ctx context.Context, s backend.Session, _ bool, _ func(string) string, _ string) (map[string]float64, error) {
	l, err := s.Evaluate(ctx, backend.Evaluation{Labels: true}, each(t.held), func(backend.Outputs) error { return nil })
	if err != nil {
		return nil, err
	}
	m := lossMetrics(bert.Pretraining, l)
	m["unigram_loss"] = t.unigram
	return m, nil
}

// unigramLoss is the cross-entropy in nats of predicting every masked token with the frequencies of the masked tokens themselves: what no model
// reaches that looks at no context.
func unigramLoss(batches []*bert.Batch) float64 {
	count := map[int32]int{}
	n := 0
	for _, b := range batches {
		for i, id := range b.MaskedLMIDs {
			if b.MaskedLMWeights[i] > 0 {
				count[id]++
				n++
			}
		}
	}
	counts := slices.Sorted(maps.Values(count)) // a sum in a fixed order
	loss := 0.0
	for _, c := range counts {
		f := float64(c) / float64(n)
		loss -= f * math.Log(f)
	}
	return loss
}

// taskSet is fine-tuning.
type taskSet struct {
	*evaluation.Training
	evaluator *evaluation.Evaluator
}

func (d *Data) openTask(s split, p *recipe.Phase, seed uint64) (*taskSet, error) {
	t := new(taskSet)
	var err error
	if t.Training, err = s.train.Training(d.Tokenizer, p, seed); err != nil {
		return nil, err
	}
	t.evaluator, err = evaluation.New(s.dev.First(p.Evaluation.Sequences), d.Tokenizer, p)
	return t, err
}

func (t *taskSet) sequences() int                  { return t.Sequences }
func (t *taskSet) source() (dataset.Source, error) { return t.Source, nil }
func (t *taskSet) notes() []string                 { return t.Notes }
func (t *taskSet) evaluated() int                  { return t.evaluator.Sequences() }

func (t *taskSet) evaluate(ctx context.Context, s backend.Session, final bool, path func(string) string, phase string) (map[string]float64, error) {
	predictions, err := t.evaluator.Run(ctx, s, nil)
	if err != nil {
		return nil, err
	}
	scores, err := t.evaluator.Data.Score(predictions)
	if err != nil {
		return nil, err
	}
	if t.evaluator.Data.Task.Kind != bert.QuestionAnswering {
		scores.Metrics["loss"] = predictions.Loss
	}
	if !final {
		return scores.Metrics, nil
	}
	if err := predictions.Save(func(name string) string { return path(phase + "." + name) }); err != nil {
		return nil, err
	}
	if scores.Questions != nil {
		err = durable.WriteFile(path(results.ScoresFile(phase)), func(w io.Writer) error { return json.NewEncoder(w).Encode(scores.Questions) })
	}
	return scores.Metrics, err
}

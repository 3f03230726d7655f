package train

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"harness.invalid/core/checkpoint/huggingface"
	"harness.invalid/core/checkpoint/weights"
	"harness.invalid/core/dataset/pretraining"
	"harness.invalid/core/dataset/synthetic"
	"harness.invalid/core/durable"
	"harness.invalid/core/recipe"
	"harness.invalid/core/wordpiece"
	"harness.invalid/harness/evaluation"
	"harness.invalid/harness/pretrained"
)

// Data is what the phases of a recipe are trained and evaluated on, opened once for all runs of a comparison.
type Data struct {
	Tokenizer *wordpiece.Tokenizer
	// Digest is a SHA-256 over the contents of all files. Runs on data with different digests cannot be compared.
	Digest string

	corpus   *pretraining.Corpus
	prepared []*pretraining.Prepared
	tasks    map[string]split

	folderTokenizer huggingface.Tokenizer // Tokenizer in the form in which a model folder has it
	model           *pretrained.Model     // to start from; nil: initial values
	start           *weights.File         // the recipe's own model to start from; nil: there is none
}

// split are the examples of a task.
type split struct{ train, dev *evaluation.Data }

// OpenData opens the files of a recipe. It first generates synthetic data in dir if the recipe says so, and learns
// a vocabulary from the text if none is given. Runs that were trained before may use what lies there: if it is other
// data, the error is durable.ErrDiffers. Where the recipe leaves the labels of a task to its data, OpenData sets them.
// It calls progress before what takes time.
func OpenData(r *recipe.Recipe, dir string, progress func(what string)) (_ *Data, err error) {
	files := r.Data.Files
	if r.Data.Kind == recipe.GeneratedData {
		progress("generating data")
		if files, err = generate(dir, r.Data.Generated); err != nil {
			return nil, err
		}
	}
	if err := missingFiles(r, files); err != nil {
		return nil, err
	}
	d := new(Data)
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	sum := sha256.New()
	if err := d.openPrepared(r, &files, sum); err != nil {
		return nil, err
	}
	if err := d.openModel(&files, sum); err != nil {
		return nil, err
	}
	if d.model == nil && files.Vocab == "" {
		progress("learning a vocabulary")
		files.Vocab = filepath.Join(dir, "vocab.txt")
		v, _, err := learnVocab(files.Text, r.Vocab.Size, 0, r.Vocab.Lowercase)
		if err != nil {
			return nil, err
		}
		if err := durable.WriteOnce(files.Vocab, func(w io.Writer) error { _, err := v.WriteTo(w); return err }); err != nil {
			return nil, err
		}
	}
	if err := d.openTokenizer(&files, r.Vocab.Lowercase, sum); err != nil {
		return nil, err
	}
	if len(files.Text) > 0 {
		progress("reading the text")
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

// generate writes synthetic text and questions to dir.
func generate(dir string, g recipe.Generated) (files recipe.Files, err error) {
	w, err := synthetic.Write(dir, synthetic.Settings{
		Seed: uint64(g.Seed), People: g.People, Questions: g.Questions, DevQuestions: g.DevQuestions,
	})
	if err != nil {
		return files, err
	}
	files.Text = []string{w.Text}
	files.SQuAD = recipe.TaskFiles{Train: []string{w.Train}, Dev: []string{w.Dev}}
	return files, nil
}

// openPrepared opens the folders of prepared data. Unless a vocabulary is given, it is the one of the first folder.
func (d *Data) openPrepared(r *recipe.Recipe, files *recipe.Files, sum io.Writer) error {
	for _, dir := range files.Prepared {
		p, err := pretraining.OpenPrepared(dir)
		if err != nil {
			return err
		}
		if p.Lowercase != r.Vocab.Lowercase {
			return fmt.Errorf("prepared data %s was made with lowercase %v, recipe %s has vocab.lowercase %v",
				dir, p.Lowercase, r.Name, r.Vocab.Lowercase)
		}
		d.prepared = append(d.prepared, p)
		fmt.Fprintf(sum, "prepared %s\n", p.Digest())
	}
	if files.Vocab == "" && len(d.prepared) > 0 {
		files.Vocab = d.prepared[0].VocabFile()
	}
	return nil
}

// openModel opens the folder with the parameters to start from, if there is one.
func (d *Data) openModel(files *recipe.Files, sum io.Writer) (err error) {
	if files.Model == "" {
		return nil
	}
	if d.model, err = pretrained.Open(files.Model); err != nil {
		return err
	}
	digest, err := d.model.Digest()
	fmt.Fprintf(sum, "model %s\n", digest)
	return err
}

// openTokenizer reads the vocabulary that is given, or else the tokenizer of the model.
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

// openTasks reads the examples of all tasks of the recipe and of its start model.
func (d *Data) openTasks(r *recipe.Recipe, files *recipe.Files, sum io.Writer) (err error) {
	d.tasks = map[string]split{}
	for _, p := range r.AllPhases() {
		t := p.FineTuning()
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
		if t.Open {
			labels := s.train.Labels()
			s.train.SetLabels(labels)
			s.dev.SetLabels(labels)
			r.SetLabels(t.Name, labels)
		}
		if !s.dev.Labelled() {
			return fmt.Errorf("task %s: %s has examples without labels, which cannot be scored", t.Name, strings.Join(f.Dev, ", "))
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
	if d.start != nil {
		errs = append(errs, d.start.Close())
	}
	return errors.Join(errs...)
}

package results

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"harness.invalid/core/bounded"
	"harness.invalid/core/durable"
	"harness.invalid/core/jsonerror"
	"harness.invalid/core/recipe"
)

// Title is how errors and notes name a run.
func (r *Run) Title() string {
	if r.Dir != "" {
		return "run " + r.Dir
	}
	return fmt.Sprintf("run %s seed %d", r.Arm(), r.Seed)
}

// The files of a run's folder.
const (
	runFile         = "run.json"
	recipeFile      = "recipe.yaml"
	environmentFile = "environment.json"
	stepsFile       = "steps.jsonl"
	evaluationsFile = "evaluations.jsonl"
	segmentsFile    = "segments.jsonl"
	resultFile      = "result.json"
	stopFile        = "stop.json"
	lockFile        = "lock" // of the one process that writes there
	checkpointsDir  = "checkpoints"
)

// The most that is read of a file of a run, which may come from anybody: far above what harness writes.
const (
	mostSettings = bounded.MiB       // of run.json, environment.json and recipe.yaml
	mostSummary  = 64 * bounded.MiB  // of result.json, tags.json and other files of JSON
	mostScores   = 512 * bounded.MiB // of PHASE.scores.json and PHASE.predictions.json
	mostLines    = 8 * bounded.GiB   // of steps.jsonl and evaluations.jsonl: about 10 million steps
	mostLine     = bounded.MiB       // of one line of those
)

// Writer records a run in progress.
type Writer struct {
	dir         string
	steps       *appender
	evaluations *appender
	unlock      func() error
}

// Mark is a point in a run's record: how many lines there were, and their digests. Checkpoints keep one, and so does
// the end of a run.
type Mark struct {
	Steps             int    `json:"steps"`
	Evaluations       int    `json:"evaluations"`
	StepsSHA256       string `json:"steps_sha256,omitempty"` // empty: not known
	EvaluationsSHA256 string `json:"evaluations_sha256,omitempty"`
}

// Create begins a record in a folder, which must not hold one yet. It takes the folder's lock; if another process
// holds it, the error is durable.ErrLocked.
func Create(dir string, id Identity, r *recipe.Recipe, env Environment) (_ *Writer, err error) {
	fail := func(err error) (*Writer, error) { return nil, fmt.Errorf("run %s: %w", dir, err) }
	if err := durable.MkdirAll(dir); err != nil {
		return fail(err)
	}
	unlock, err := lock(dir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, unlock())
		}
	}()
	if _, err := os.Lstat(filepath.Join(dir, runFile)); err == nil {
		return fail(fmt.Errorf("the folder holds a run already: %w", fs.ErrExist))
	}
	if err := durable.WriteFile(filepath.Join(dir, recipeFile), r.Write); err != nil {
		return fail(err)
	}
	if err := replaceJSON(filepath.Join(dir, environmentFile), env); err != nil {
		return fail(err)
	}
	// Last, because it is what makes the folder a run.
	if err := replaceJSON(filepath.Join(dir, runFile), id); err != nil {
		return fail(err)
	}
	return open(dir, Mark{}, unlock)
}

// Resume continues a record from a mark. It cuts off what was written after the mark, and removes the end of the
// run if there is one. If what was written before the mark has changed since, the error is ErrDamaged, and the record
// is left as it is. Resume takes the folder's lock; if another process holds it, the error is durable.ErrLocked.
func Resume(dir string, at Mark) (_ *Writer, err error) {
	if _, err := os.Stat(filepath.Join(dir, runFile)); err != nil {
		return nil, fmt.Errorf("run %s: %w", dir, err)
	}
	unlock, err := lock(dir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, unlock())
		}
	}()
	return open(dir, at, unlock)
}

// lock takes the lock of a run's folder.
func lock(dir string) (unlock func() error, err error) {
	unlock, err = durable.Lock(filepath.Join(dir, lockFile))
	if errors.Is(err, durable.ErrLocked) {
		err = fmt.Errorf("run %s: another process writes into it: wait until that is done, or start in another folder: %w", dir, err)
	}
	return unlock, err
}

func open(dir string, at Mark, unlock func() error) (*Writer, error) {
	if err := durable.RemoveLeftovers(dir, 0); err != nil {
		return nil, fmt.Errorf("run %s: %w", dir, err)
	}
	steps, err := openLines(filepath.Join(dir, stepsFile), at.Steps, at.StepsSHA256)
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", dir, err)
	}
	evaluations, err := openLines(filepath.Join(dir, evaluationsFile), at.Evaluations, at.EvaluationsSHA256)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("run %s: %w", dir, err), steps.file.Close())
	}
	w := &Writer{dir, steps, evaluations, unlock}
	// Before a line is cut off: a run with an end has all of its lines.
	for _, name := range []string{resultFile, stopFile} {
		if e := durable.Remove(filepath.Join(dir, name)); !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	if err == nil {
		err = errors.Join(steps.cut(), evaluations.cut())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("run %s: %w", dir, err), w.closeFiles())
	}
	return w, nil
}

// Step appends a step.
func (w *Writer) Step(s Step) error { return w.steps.add(s) }

// Evaluation appends an evaluation.
func (w *Writer) Evaluation(e Evaluation) error { return w.evaluations.add(e) }

// Mark is the current point of the record. Call Sync before writing a checkpoint with it.
func (w *Writer) Mark() Mark {
	return Mark{w.steps.lines, w.evaluations.lines, w.steps.sum(), w.evaluations.sum()}
}

// Sync flushes all lines to the disk.
func (w *Writer) Sync() error { return errors.Join(w.steps.file.Sync(), w.evaluations.file.Sync()) }

// Path is where a file of the run belongs, such as predictions.json.
func (w *Writer) Path(name string) string { return filepath.Join(w.dir, name) }

// Checkpoints is the folder for core/checkpoint.
func (w *Writer) Checkpoints() string { return w.Path(checkpointsDir) }

// Finish writes the end of the run and closes the record. A folder with a result holds a run that is over.
func (w *Writer) Finish(r Result) error {
	if err := w.Sync(); err != nil {
		return errors.Join(err, w.Close())
	}
	mark := w.Mark()
	r.Record = &mark
	return errors.Join(replaceJSON(filepath.Join(w.dir, resultFile), r), w.Close())
}

// Close closes the record without an end.
func (w *Writer) Close() error { return errors.Join(w.closeFiles(), w.unlock()) }

func (w *Writer) closeFiles() error {
	return errors.Join(w.steps.file.Close(), w.evaluations.file.Close())
}

// idDigits is the length of an ID in hexadecimal digits: among a million runs, two share one with a probability of
// 2·10⁻³.
const idDigits = 12

// Run is a run that was read back.
type Run struct {
	Dir string
	// ID identifies the run wherever its folder goes: the beginning of a SHA-256 over run.json and
	// environment.json, which are written once.
	ID string
	Identity
	Environment Environment
	Recipe      *recipe.Recipe
	Result      *Result // nil: the run goes on, or stands
	Stop        *Stop   // why it stands, where that was recorded; nil beside a Result

	curves []Curves // once they were read
}

// Open reads a run's folder. Steps and evaluations are read on demand.
func Open(dir string) (*Run, error) { return new(opener).open(dir) }

// OpenAll opens the runs of many folders, in their order. Runs whose recipes have the same text share one.
func OpenAll(dirs []string) ([]*Run, error) {
	runs := make([]*Run, len(dirs))
	var o opener
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, dir := range dirs {
		g.Go(func() (err error) {
			runs[i], err = o.open(dir)
			return err
		})
	}
	return runs, g.Wait()
}

// opener opens runs, and parses each recipe once. It may be used concurrently.
type opener struct{ recipes sync.Map } // *openedRecipe by its text

type openedRecipe struct {
	recipe      *recipe.Recipe
	fingerprint string
}

func (o *opener) open(dir string) (*Run, error) {
	r := &Run{Dir: dir}
	if err := o.read(r); err != nil {
		return nil, fmt.Errorf("run %s: %w", dir, err)
	}
	return r, nil
}

func (o *opener) read(r *Run) error {
	hash := sha256.New()
	for _, f := range []struct {
		name string
		v    any
	}{{runFile, &r.Identity}, {environmentFile, &r.Environment}} {
		text, err := bounded.ReadFileIn(r.Dir, f.name, mostSettings)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(text, f.v); err != nil {
			return fmt.Errorf("%s: %w", f.name, jsonerror.Explain(text, err))
		}
		hash.Write(text)
	}
	if err := r.Identity.checkNames(); err != nil {
		return fmt.Errorf("%s: %w", runFile, err)
	}
	r.ID = hex.EncodeToString(hash.Sum(nil))[:idDigits]
	text, err := bounded.ReadFileIn(r.Dir, recipeFile, mostSettings)
	if err != nil {
		return err
	}
	parsed, ok := o.recipes.Load(string(text))
	if !ok {
		p, err := recipe.ParseResolved(r.path(recipeFile), text)
		if err != nil {
			return err
		}
		parsed, _ = o.recipes.LoadOrStore(string(text), &openedRecipe{p, p.Fingerprint()})
	}
	r.Recipe = parsed.(*openedRecipe).recipe
	if got := parsed.(*openedRecipe).fingerprint; got != r.Fingerprint {
		return fmt.Errorf("%s has the fingerprint %.12s, want %.12s: it was changed after the run, or by another version of harness",
			recipeFile, got, r.Fingerprint)
	}
	var result Result
	err = readJSON(r.Dir, resultFile, mostSummary, &result)
	if errors.Is(err, fs.ErrNotExist) {
		return r.readStop()
	}
	r.Result = &result
	return err
}

// Steps yields the steps that were recorded.
func (r *Run) Steps() iter.Seq2[Step, error] {
	return readLines(r.Dir, stepsFile, r.recorded().Steps, func(line []byte) (Step, error) {
		var d stepDecoder
		s, err := d.decode(line)
		return *s, err
	})
}

// passingSteps is Steps at a fraction of the cost. Each step is overwritten by the next, with its maps.
func (r *Run) passingSteps() iter.Seq2[*Step, error] {
	var d stepDecoder
	return readLines(r.Dir, stepsFile, r.recorded().Steps, d.decode)
}

// Evaluations yields the evaluations that were recorded.
func (r *Run) Evaluations() iter.Seq2[Evaluation, error] {
	return readLines(r.Dir, evaluationsFile, r.recorded().Evaluations, decodeJSON[Evaluation])
}

// recorded is the mark at the end of the run; negative numbers of lines are not known.
func (r *Run) recorded() Mark {
	if r.Result == nil || r.Result.Record == nil {
		return Mark{Steps: -1, Evaluations: -1}
	}
	return *r.Result.Record
}

// Checkpoints is the folder of the run's checkpoints.
func (r *Run) Checkpoints() string { return r.path(checkpointsDir) }

func (r *Run) path(name string) string { return filepath.Join(r.Dir, name) }

// Sizes are the bytes of the recorded steps and evaluations of the run in a folder: they change with each line.
func Sizes(dir string) (sizes [2]int64, err error) {
	for i, name := range []string{stepsFile, evaluationsFile} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			return sizes, err
		}
		sizes[i] = info.Size()
	}
	return sizes, nil
}

// Find returns the folders of all runs in a folder and below it, sorted.
func Find(dir string) ([]string, error) {
	var dirs []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() == checkpointsDir {
			return filepath.SkipDir
		}
		if !d.IsDir() && d.Name() == runFile {
			dirs = append(dirs, filepath.Dir(path))
		}
		return nil
	})
	slices.Sort(dirs)
	return dirs, err
}

func readJSON(dir, name string, most int64, v any) error {
	text, err := bounded.ReadFileIn(dir, name, most)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("%s: %w", name, jsonerror.Explain(text, err))
	}
	return nil
}

// readOptional is readJSON for a file that may be missing.
func (r *Run) readOptional(name string, most int64, v any) error {
	if err := readJSON(r.Dir, name, most, v); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func replaceJSON(path string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return durable.WriteFile(path, func(w io.Writer) error {
		_, err := w.Write(append(text, '\n'))
		return err
	})
}

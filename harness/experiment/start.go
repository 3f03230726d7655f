package experiment

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"harness.invalid/core/kernels"
	"harness.invalid/core/plugin"
	"harness.invalid/core/recipe"
	"harness.invalid/harness/catalog"
	"harness.invalid/harness/hint"
	"harness.invalid/harness/processes"
	"harness.invalid/harness/train"
	"harness.invalid/results"
)

// A start model is trained by the reference in FP32, whatever the arms are.
const (
	startBackend   = "gpu-ref"
	startPrecision = "fp32"
)

// startPrefix is what the names of start models in an experiment's folder begin with.
const startPrefix = "start-"

// openStart opens the model that the runs of the recipe start from, if it has one. The experiment keeps a copy in its
// folder, so that Resume has the same one whatever became of the cache and of the program. Without that the model comes
// from the cache, or is trained and goes into the cache.
func (s *Session) openStart(ctx context.Context) error {
	r := s.Recipe.StartRecipe()
	if r == nil {
		return nil
	}
	identity := sha256.Sum256(fmt.Appendf(nil, "%s\n%d\n%s", r.Fingerprint(), s.Recipe.Start.Seed, s.data.Digest))
	here := models{s.Dir, startPrefix + fmt.Sprintf("%.6x", identity)}
	m, err := here.find(s.Observe)
	if err != nil {
		return err
	}
	if m == nil {
		if m, err = s.makeStart(ctx, r, here); err != nil {
			if err = fmt.Errorf("start model: %w", err); ctx.Err() != nil {
				err = hint.With(err, "nothing is kept of a start model that is not complete: the same command begins it again")
			}
			return err
		}
	} else {
		s.Observe.note("start model %.12s, that of the runs in %s", m.digest, s.Dir)
	}
	s.start = m.digest
	return s.data.StartFrom(m.path)
}

// makeStart puts a start model from the cache, or a new one, into the experiment's folder.
func (s *Session) makeStart(ctx context.Context, r *recipe.Recipe, here models) (_ *model, err error) {
	key, err := s.startKey(r)
	if err != nil {
		return nil, err
	}
	dir, nowhere := startFolder()
	cache := models{dir, key}
	keep := cache.keep
	if nowhere != nil {
		keep = func(string) error { return nowhere }
	} else if m, err := cache.find(s.Observe); err == nil && m != nil {
		// Another process may remove it meanwhile.
		if copied, err := here.add(m.path); err == nil {
			s.Observe.note("start model %.12s, cached", copied.digest)
			return copied, cache.used(m)
		}
	}
	began := time.Now()
	s.Observe.note("training the model that all runs start from, which later comparisons find in %s", cache.dir)
	trained, remove, err := s.trainStart(ctx, r)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	m, err := here.add(trained)
	if err != nil {
		return nil, err
	}
	s.Observe.note("start model %.12s, trained in %v", m.digest, time.Since(began).Round(time.Second))
	if err := keep(trained); err != nil {
		s.Observe.note("the start model is not kept for later experiments: %v", err)
	}
	return m, nil
}

// startKey is a digest over everything that the bits of a start model depend on: what is trained, with which seed and
// data, the kernels that compute it, and the programs that take part. Built-in plugins are this program.
func (s *Session) startKey(r *recipe.Recipe) (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "harness start 1\n%s\n%d\n%s\n%s\n", r.Fingerprint(), s.Recipe.Start.Seed, s.data.Digest, kernels.Path())
	add := func(k plugin.Kind, name string) error {
		e, err := catalog.Find(k, name)
		if err != nil {
			return err
		}
		sum, err := e.Hash()
		fmt.Fprintf(h, "%s %s %s\n", k, name, sum)
		return err
	}
	if err := add(plugin.Backend, startBackend); err != nil {
		return "", err
	}
	for i := range r.Phases {
		if err := add(plugin.Optimizer, r.Phases[i].Optimizer.Name); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}

// trainStart trains a start model in a folder of its own. remove removes it.
func (s *Session) trainStart(ctx context.Context, r *recipe.Recipe) (path string, remove func() error, err error) {
	dir, err := os.MkdirTemp("", "harness-start-")
	if err != nil {
		return "", nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	pool := processes.NewPool(processes.Options{Transport: s.Transport, Output: s.Observe})
	plugins, err := pool.Take(ctx, startBackend)
	if err != nil {
		return "", nil, err
	}
	env, err := s.environment()
	if err != nil {
		return "", nil, errors.Join(err, plugins.Close(), pool.Close())
	}
	env.Transport = string(plugins.Transport())
	path = filepath.Join(dir, "start.safetensors")
	const name = "start model"
	job := train.Job{
		Recipe: r, Data: s.data, Backend: startBackend, Precision: startPrecision, Seed: uint64(s.Recipe.Start.Seed), Plugins: plugins,
		Dir: filepath.Join(dir, "run"), Environment: env, KeepParameters: path,
		Identity: results.Identity{
			Recipe: r.Name, Fingerprint: r.Fingerprint(), DataDigest: s.data.Digest, Backend: startBackend, Precision: startPrecision,
			Optimizer: optimizerName(r, ""), Seed: uint64(s.Recipe.Start.Seed),
		},
		Observe: func(e train.Event) { s.Observe.tell(RunAdvanced{name, e}) },
	}
	s.Observe.tell(RunStarted{name})
	defer s.Observe.tell(RunEnded{name})
	_, err = train.Run(ctx, job)
	return path, func() error { return os.RemoveAll(dir) }, errors.Join(err, plugins.Close(), pool.Close())
}

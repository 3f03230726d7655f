package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"

	"harness.invalid/core/arena"
	"harness.invalid/core/backend"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/plugin"
	"harness.invalid/core/recipe"
	"harness.invalid/core/tensor"
	"harness.invalid/harness/catalog"
	"harness.invalid/harness/train"
	"harness.invalid/results"
)

// processes are the plugins of one run and the memory that they share with the host. It is a train.Plugins.
type processes struct {
	transport plugin.Transport
	arena     *arena.Arena
	say       func(format string, args ...any)
	region    *arena.Region // nil: nothing is allocated
	backend   *plugin.Process
	rules     map[string]*plugin.Process
}

var _ train.Plugins = (*processes)(nil)

// launch starts a plugin by its name.
func launch(ctx context.Context, k plugin.Kind, name string, transport plugin.Transport, a *arena.Arena) (*plugin.Process, error) {
	e, err := catalog.Find(k, name)
	if err != nil {
		return nil, err
	}
	return start(ctx, e, transport, a, nil)
}

// start starts a plugin. What it prints goes to say, line by line with its name before it; nil: nowhere, but into errors.
func start(ctx context.Context, e catalog.Entry, transport plugin.Transport, a *arena.Arena, say func(format string, args ...any)) (*plugin.Process, error) {
	s, err := specOf(e)
	if err != nil {
		return nil, err
	}
	s.Transport, s.Arena = transport, a
	if say != nil {
		s.Stderr = &logLines{name: string(e.Kind) + " " + e.Name, say: say}
	}
	p, err := plugin.Launch(ctx, s)
	return p, acceptHint(err, e)
}

// specOf is what the host sets when it starts a plugin.
func specOf(e catalog.Entry) (plugin.Spec, error) {
	s := plugin.Spec{
		Kind: e.Kind, Name: e.Name, Path: e.Path, Args: e.Args, Env: e.Env, Address: e.Address,
		Threads:  runtime.GOMAXPROCS(0), // as many as this program may use: its own setting or the limit of a container holds for all
		Timeouts: plugin.Timeouts{Start: e.Patience},
	}
	if !e.BuiltIn {
		s.Files = e.Source()
	}
	var err error
	s.Dir, err = os.Getwd()
	return s, err
}

// acceptHint says how a change of a pinned plugin is accepted.
func acceptHint(err error, e catalog.Entry) error {
	if !errors.Is(err, plugin.ErrChanged) {
		return err
	}
	return withHint(err, "if the change is yours, accept it with: harness plugin install %s", shellString(e.Source()))
}

// logLines passes on what a plugin prints.
type logLines struct {
	name string
	say  func(format string, args ...any)
	rest []byte // of a line that is not finished
}

// Write implements io.Writer.
func (l *logLines) Write(b []byte) (int, error) {
	l.rest = append(l.rest, b...)
	for {
		line, rest, ok := bytes.Cut(l.rest, []byte("\n"))
		if !ok {
			return len(b), nil
		}
		l.rest = rest
		if line = bytes.TrimRight(line, " \r"); len(line) > 0 {
			l.say("%s: %s", l.name, line)
		}
	}
}

// printTo prints lines, for what plugins print under commands that show no progress.
func printTo(out io.Writer) func(format string, args ...any) {
	return func(format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) }
}

// startProcesses starts a backend. Optimizers are started when a phase asks for them. What plugins print goes to say.
func startProcesses(ctx context.Context, backend string, transport plugin.Transport, say func(format string, args ...any)) (*processes, error) {
	a, err := arena.New()
	if err != nil {
		return nil, err
	}
	p := &processes{transport: transport, arena: a, say: say, rules: map[string]*plugin.Process{}}
	if p.backend, err = p.start(ctx, plugin.Backend, backend); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

func (p *processes) start(ctx context.Context, k plugin.Kind, name string) (*plugin.Process, error) {
	e, err := catalog.Find(k, name)
	if err != nil {
		return nil, err
	}
	return start(ctx, e, p.transport, p.arena, p.say)
}

func (p *processes) Backend() backend.Backend { return p.backend.Backend() }

func (p *processes) Optimizer(ctx context.Context, name string) (optimizer.Optimizer, error) {
	o, err := p.rule(ctx, name)
	if err != nil {
		return nil, err
	}
	return o.Optimizer(), nil
}

func (p *processes) rule(ctx context.Context, name string) (*plugin.Process, error) {
	if o, ok := p.rules[name]; ok {
		return o, nil
	}
	o, err := p.start(ctx, plugin.Optimizer, name)
	if err != nil {
		return nil, err
	}
	p.rules[name] = o
	return o, nil
}

func (p *processes) Allocate(l *tensor.Layout, slots int) (train.Memory, error) {
	if p.region != nil {
		if err := p.region.Close(); err != nil {
			return train.Memory{}, err
		}
		p.region = nil
	}
	r, err := p.arena.Allocate(l, 2+slots)
	if err != nil {
		return train.Memory{}, err
	}
	p.region = r
	return train.Memory{Layout: l, Params: r.Params(), Grads: r.Grads(), Slots: r.Slots()}, nil
}

// died reports whether any of the plugins is gone.
func (p *processes) died() bool {
	died := p.backend.Exited()
	for _, o := range p.rules {
		died = died || o.Exited()
	}
	return died
}

// Close ends the plugins and frees the memory.
func (p *processes) Close() error {
	var errs []error
	if p.backend != nil {
		errs = append(errs, p.backend.Close())
	}
	for _, o := range p.rules {
		errs = append(errs, o.Close())
	}
	if p.region != nil {
		errs = append(errs, p.region.Close())
	}
	return errors.Join(append(errs, p.arena.Close())...)
}

// waiting is a backend that waits for a run, which may be for hours. It is started when there is none, or when it died meanwhile.
func (e *experiment) waiting(ctx context.Context, name string) (*processes, error) {
	if p, ok := e.asked[name]; ok {
		if !p.died() {
			return p, nil
		}
		delete(e.asked, name)
		if err := p.Close(); err != nil {
			return nil, err
		}
	}
	p, err := startProcesses(ctx, name, plugin.Transport(e.transport), e.progress.say)
	if err != nil {
		return nil, err
	}
	if e.asked == nil {
		e.asked = map[string]*processes{}
	}
	e.asked[name] = p
	return p, nil
}

// take is a backend for one run: the process that was asked, or where another run took it a new one.
func (e *experiment) take(ctx context.Context, name string) (*processes, error) {
	p, err := e.waiting(ctx, name)
	delete(e.asked, name)
	return p, err
}

// dismiss ends the processes that no run took.
func (e *experiment) dismiss() error {
	var errs []error
	for _, p := range e.asked {
		errs = append(errs, p.Close())
	}
	clear(e.asked)
	return errors.Join(errs...)
}

// note keeps a plugin that takes part for the record.
func (e *experiment) note(k plugin.Kind, name, version string, p *plugin.Process) error {
	// An optimizer is asked once for each phase's options.
	if slices.ContainsFunc(e.plugins, func(o results.Plugin) bool { return o.Kind == string(k) && o.Name == name }) {
		return nil
	}
	entry, err := catalog.Find(k, name)
	if err != nil {
		return err
	}
	took, err := record(entry, p)
	took.Version = version
	e.plugins = append(e.plugins, took)
	return err
}

// record is what a run keeps of a plugin that takes part, but for the version, which it says itself.
func record(from catalog.Entry, p *plugin.Process) (results.Plugin, error) {
	r := results.Plugin{Kind: string(from.Kind), Name: from.Name, Attached: string(from.Address)}
	if r.Attached != "" {
		return r, nil
	}
	s, err := specOf(from)
	if err != nil {
		return r, err
	}
	r.Path, r.Threads, r.Folder, r.Environment = from.Source(), s.Threads, s.Dir, map[string]string{}
	for _, v := range p.Environment() {
		name, value, _ := strings.Cut(v, "=")
		r.Environment[name] = value
	}
	r.SHA256, err = from.Hash()
	return r, err
}

// describe asks a backend what it is.
func (e *experiment) describe(ctx context.Context, name string) (backend.Info, error) {
	if info, ok := e.described[name]; ok {
		return info, nil
	}
	p, err := e.waiting(ctx, name)
	if err != nil {
		return backend.Info{}, err
	}
	info, err := p.Backend().Describe(ctx)
	if err != nil {
		return info, err
	}
	e.described[name] = info
	return info, e.note(plugin.Backend, name, info.Version, p.backend)
}

// checkOptimizer asks an optimizer whether it takes the options of a recipe. It is one of the processes of a run, or without them a process for this alone.
func (e *experiment) checkOptimizer(ctx context.Context, of *processes, u recipe.Optimizer) error {
	if of == nil {
		p, err := launch(ctx, plugin.Optimizer, u.Name, plugin.Stream, nil)
		if err != nil {
			return err
		}
		return errors.Join(e.agrees(ctx, p, u), p.Close())
	}
	p, err := of.rule(ctx, u.Name)
	if err != nil {
		return err
	}
	return e.agrees(ctx, p, u)
}

// agrees asks an optimizer that runs.
func (e *experiment) agrees(ctx context.Context, p *plugin.Process, u recipe.Optimizer) error {
	info, err := p.Optimizer().Describe(ctx)
	if err != nil {
		return err
	}
	if _, err := p.Optimizer().Slots(ctx, u.Options); err != nil {
		return fmt.Errorf("optimizer %s: %w", u.Name, err)
	}
	for _, name := range slices.Sorted(maps.Keys(e.described)) {
		if err := train.CanServe(name, e.described[name], u.Name, info); err != nil {
			return err
		}
	}
	return e.note(plugin.Optimizer, u.Name, info.Version, p)
}

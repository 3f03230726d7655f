// Package catalog knows which plugins there are: those that are built in, by an explicit table, and those of third
// parties, by looking into the folders that core/plugin names. A built-in plugin is this executable started again,
// with no privilege that a third party lacks.
package catalog

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"harness.invalid/core/backend"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/plugin"
	"harness.invalid/core/plugin/host"
	"harness.invalid/core/spelling"
	gpuref "harness.invalid/plugins/gpu-ref"
	"harness.invalid/plugins/ipu"
	"harness.invalid/plugins/optimizers/adafactor"
	"harness.invalid/plugins/optimizers/adamw"
	"harness.invalid/plugins/optimizers/lamb"
	"harness.invalid/plugins/optimizers/lion"
	"harness.invalid/plugins/optimizers/muon"
	"harness.invalid/plugins/optimizers/nadamw"
	"harness.invalid/plugins/optimizers/sam"
	"harness.invalid/plugins/optimizers/schedulefree"
	"harness.invalid/plugins/optimizers/sgd"
	"harness.invalid/plugins/optimizers/shampoo"
)

var backends = []struct {
	name string
	new  func() backend.Backend
}{
	{"gpu-ref", func() backend.Backend { return gpuref.New() }},
	{"ipu", func() backend.Backend { return ipu.New() }},
}

var optimizers = []struct {
	name string
	new  func() optimizer.Optimizer
}{
	{"adafactor", func() optimizer.Optimizer { return adafactor.New() }},
	{"adamw", func() optimizer.Optimizer { return adamw.New() }},
	{"lamb", func() optimizer.Optimizer { return lamb.New() }},
	{"lion", func() optimizer.Optimizer { return lion.New() }},
	{"muon", func() optimizer.Optimizer { return muon.New() }},
	{"nadamw", func() optimizer.Optimizer { return nadamw.New() }},
	{"sam", func() optimizer.Optimizer { return sam.New() }},
	{"schedule-free-adamw", func() optimizer.Optimizer { return schedulefree.New() }},
	{"sgd", func() optimizer.Optimizer { return sgd.New() }},
	{"shampoo", func() optimizer.Optimizer { return shampoo.New() }},
}

// Entry is a plugin that can be started.
type Entry struct {
	Kind     plugin.Kind
	Name     string
	Path     string        // of the executable
	Args     []string      // that make it serve
	Env      []string      // that it needs beside what all plugins get
	Script   string        // what the executable runs, when that is an interpreter
	Folder   string        // of the plugin's files, when it is more than one
	Pinned   bool          // its files must be what they were when it was installed
	Patience time.Duration // how long it may take to answer for the first time; 0: as long as any plugin
	BuiltIn  bool
	Address  host.Address // where it listens, when another process runs it; then there is no Path
	Family   []string     // the entry stands for plugins of these names, and others like them
	Note     string       // why it can't be used, or what it hides; empty: nothing to say

	interpreted bool // Path and Script are to be found yet
}

// Source is the file or the folder that the plugin is in: what a record names, with its hash. Of a plugin that
// another process runs it is not known, and empty.
func (e Entry) Source() string {
	switch {
	case e.Folder != "":
		return e.Folder
	case e.Script != "":
		return e.Script
	}
	return e.Path
}

// Hash is the SHA-256 of the plugin's files. This program, in which the built-in plugins are, has tens of megabytes
// and is hashed once.
func (e Entry) Hash() (string, error) {
	if e.BuiltIn && e.Script == "" {
		return programHash()
	}
	return host.Hash(e.Source())
}

var programHash = sync.OnceValues(func() (string, error) {
	self, err := program()
	if err != nil {
		return "", err
	}
	return host.Hash(self)
})

// program is the executable that runs.
func program() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find the program itself: %w", err)
	}
	return self, nil
}

// Where says in words where a plugin is.
func (e Entry) Where() string {
	switch {
	case e.BuiltIn:
		return "built in"
	case e.Address != "":
		return "attached at " + string(e.Address)
	}
	return e.Source()
}

// At makes an entry of a plugin that Discover need not know, with what it needs to be started.
func At(f host.Found) (Entry, error) {
	e := entryOf(f)
	return e, e.prepare()
}

func entryOf(f host.Found) Entry {
	return Entry{Kind: f.Kind, Name: f.Name, Path: f.Path, Folder: f.Folder, Pinned: f.Pinned(), Note: f.Problem}
}

// AttachVariable names plugins that other processes run, such as one under a debugger, and where they listen:
// KIND/NAME=ADDRESS, more of them after commas.
const AttachVariable = "HARNESS_ATTACH"

// Attached are the plugins that AttachVariable names.
func Attached() ([]Entry, error) {
	var list []Entry
	for text := range strings.SplitSeq(os.Getenv(AttachVariable), ",") {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		plugins, address, _ := strings.Cut(text, "=")
		kind, name, _ := strings.Cut(plugins, "/")
		e := Entry{Kind: plugin.Kind(kind), Name: name, Address: host.Address(address)}
		if e.Kind != plugin.Backend && e.Kind != plugin.Optimizer || name == "" {
			return nil, fmt.Errorf("%s: %q is not KIND/NAME=ADDRESS, such as optimizer/mine=unix:/tmp/socket: take it as harness plugin run --attach printed it", AttachVariable, text)
		}
		if err := e.Address.Check(); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", AttachVariable, plugins, err)
		}
		list = append(list, e)
	}
	return list, nil
}

// ServeCommand is the hidden command line that makes this program serve a built-in plugin: harness plugin serve
// KIND NAME.
var ServeCommand = []string{"plugin", "serve"}

// Asked returns the built-in plugin that a command line, such as os.Args, asks this program to serve. Any program
// that starts built-in plugins is started again for each of them, and must look here first:
//
//	if kind, name, ok := catalog.Asked(os.Args); ok {
//		return catalog.Serve(kind, name)
//	}
func Asked(args []string) (k plugin.Kind, name string, ok bool) {
	n := len(ServeCommand)
	if len(args) != 1+n+2 || !slices.Equal(args[1:1+n], ServeCommand) {
		return "", "", false
	}
	return plugin.Kind(args[1+n]), args[2+n], true
}

// List returns all plugins, after those that are attached the built-in ones first. Those that can't be used, or are
// hidden by another of their name, are listed with a note.
func List() ([]Entry, error) {
	list, err := entries()
	if err != nil {
		return nil, err
	}
	for i := range list {
		if err := list[i].prepare(); err != nil {
			list[i].Note = err.Error()
		}
	}
	return list, nil
}

// entries are all plugins, as far as they are known without starting anything.
func entries() ([]Entry, error) {
	self, err := program()
	if err != nil {
		return nil, err
	}
	list, err := Attached()
	if err != nil {
		return nil, err
	}
	builtIn := func(k plugin.Kind, name string) {
		list = append(list, Entry{Kind: k, Name: name, Path: self, Args: append(slices.Clone(ServeCommand), string(k), name), BuiltIn: true})
	}
	for _, b := range backends {
		builtIn(plugin.Backend, b.name)
	}
	list = append(list, torchBackend())
	for _, o := range optimizers {
		builtIn(plugin.Optimizer, o.name)
	}
	list = append(list, torchOptimizers())
	// A folder that can't be read hides what is in it and nothing else: with $PATH among them there is always one.
	found, _ := host.Discover(host.SearchPath())
	for _, f := range found {
		list = append(list, entryOf(f))
	}
	for i := range list {
		e := &list[i]
		before := slices.IndexFunc(list[:i], func(o Entry) bool { return o.Kind == e.Kind && o.Name == e.Name && o.Note == "" })
		switch {
		case e.Note != "" || before < 0:
		case list[before].BuiltIn:
			e.Note = "hidden by the built-in plugin of that name"
		case list[before].Address != "":
			e.Note = "hidden by the one that is " + list[before].Where()
		default:
			e.Note = "hidden by " + list[before].Source()
		}
	}
	return list, nil
}

// names are those of the plugins that an entry stands for.
func (e Entry) names() []string {
	if e.Family != nil {
		return e.Family
	}
	return []string{e.Name}
}

// Names lists the plugins of a kind that can be used, as far as that is known without starting anything.
func Names(k plugin.Kind) []string {
	list, err := entries()
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range list {
		if e.Kind == k && e.Note == "" {
			names = append(names, e.names()...)
		}
	}
	return names
}

// Find returns the plugin of a name.
func Find(k plugin.Kind, name string) (Entry, error) {
	list, err := entries()
	if err != nil {
		return Entry{}, err
	}
	var names []string
	problem := ""
	for _, e := range list {
		switch class, member := strings.CutPrefix(name, familyPrefix); {
		case e.Kind != k:
		case e.Name == name && e.Note == "", e.Family != nil && member:
			if e.Family != nil {
				e.Name, e.Args = name, []string{string(k), class}
			}
			if err := e.prepare(); err != nil {
				return Entry{}, fmt.Errorf("%s %s: %w", k, name, err)
			}
			return e, nil
		case e.Name == name:
			problem = fmt.Sprintf(": %s: %s", e.Path, e.Note)
		case e.Note == "":
			names = append(names, e.names()...)
		}
	}
	return Entry{}, fmt.Errorf("no %s is named %q%s%s (known: %s)", k, name, problem, spelling.Hint(name, names), strings.Join(names, ", "))
}

// Serve plays a built-in plugin until the host is done with it.
func Serve(k plugin.Kind, name string) error {
	for _, b := range backends {
		if k == plugin.Backend && b.name == name {
			plugin.ServeBackend(b.new())
			return nil
		}
	}
	for _, o := range optimizers {
		if k == plugin.Optimizer && o.name == name {
			plugin.ServeOptimizer(o.new())
			return nil
		}
	}
	return fmt.Errorf("no built-in %s is named %q", k, name)
}

// Package catalog knows which plugins there are: built-in ones from a table, those of third parties from the folders that
// core/plugin/host searches, and those that other processes run. A built-in plugin is this executable started again, with
// no privilege that a third party lacks.
package catalog

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"harness.invalid/core/plugin"
	"harness.invalid/core/plugin/host"
	"harness.invalid/core/spelling"
)

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

// Source is the file or the folder that the plugin consists of, which records name together with its hash. It is empty
// for a plugin that another process runs.
func (e Entry) Source() string {
	switch {
	case e.Folder != "":
		return e.Folder
	case e.Script != "":
		return e.Script
	}
	return e.Path
}

// Hash is the SHA-256 of the plugin's files. Built-in plugins are part of this program.
func (e Entry) Hash() (string, error) {
	if e.BuiltIn && e.Script == "" {
		return ProgramHash()
	}
	return host.Hash(e.Source())
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

// At returns the entry of a plugin that may lie outside the folders that are searched.
func At(f host.Found) (Entry, error) {
	e := entryOf(f)
	return e, e.prepare()
}

func entryOf(f host.Found) Entry {
	return Entry{Kind: f.Kind, Name: f.Name, Path: f.Path, Folder: f.Folder, Pinned: f.Pinned(), Note: f.Problem}
}

// List returns all plugins: attached ones, then built-in ones, then those that were found. A plugin that can't be used, or
// that another one of its name hides, has a note.
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

// entries are all plugins, as far as they are known before anything is started.
func entries() ([]Entry, error) {
	list, err := firstEntries()
	if err != nil {
		return nil, err
	}
	// A folder that can't be read hides its own plugins and no others. $PATH usually has one.
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

// firstEntries lists what goes before all plugins of third parties: what is attached, and what is built in.
func firstEntries() ([]Entry, error) {
	self, err := program()
	if err != nil {
		return nil, err
	}
	list, err := Attached()
	return append(list, builtIn(self)...), err
}

// names are the plugins that an entry stands for.
func (e Entry) names() []string {
	if e.Family != nil {
		return e.Family
	}
	return []string{e.Name}
}

// Names lists the plugins of a kind that can be used, as far as that is known before they are started.
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

// Find returns the plugin of a name. Folders are searched only for what is neither attached nor built in.
func Find(k plugin.Kind, name string) (Entry, error) {
	list, err := firstEntries()
	if err != nil {
		return Entry{}, err
	}
	e, ok := pick(list, k, name)
	if !ok {
		if list, err = entries(); err != nil {
			return Entry{}, err
		}
		e, ok = pick(list, k, name)
	}
	if ok {
		if err := e.prepare(); err != nil {
			return Entry{}, fmt.Errorf("%s %s: %w", k, name, err)
		}
		return e, nil
	}
	var names []string
	problem := ""
	for _, e := range list {
		switch {
		case e.Kind != k:
		case e.Name == name:
			problem = fmt.Sprintf(": %s: %s", e.Path, e.Note)
		case e.Note == "":
			names = append(names, e.names()...)
		}
	}
	return Entry{}, fmt.Errorf("no %s is named %q%s%s (known: %s)", k, name, problem, spelling.Hint(name, names), strings.Join(names, ", "))
}

// pick returns the first usable plugin of a name, or a member of a family.
func pick(list []Entry, k plugin.Kind, name string) (Entry, bool) {
	class, member := strings.CutPrefix(name, familyPrefix)
	for _, e := range list {
		if e.Kind != k || (e.Name != name || e.Note != "") && (e.Family == nil || !member) {
			continue
		}
		if e.Family != nil {
			e.Name, e.Args = name, []string{string(k), class}
		}
		return e, true
	}
	return Entry{}, false
}

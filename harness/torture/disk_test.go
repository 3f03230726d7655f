//go:build unix

package torture

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"harness.invalid/core/fault"
)

// disk is a file system of which only what was flushed is sure to outlive a power cut: the content of a file when that
// was flushed, the entries of a folder when the folder was. Of the rest any part may be there. It is the weakest that
// POSIX allows, weaker than any file system in use, but for one thing: a rename within a folder happens or not.
//
// Source: Pillai, Chidambaram et al., All File Systems Are Not Created Equal, OSDI 2014 (ALICE).
type disk struct {
	base string // path of the root in the operations
	root *node
}

// node is a file or a folder.
type node struct {
	folder bool

	content []byte   // of a file, as the program sees it
	flushed []byte   // as the disk has it for sure
	changes []change // of the content since it was flushed

	entries map[string]*node // of a folder, as the program sees them
	stable  map[string]*node // as the disk has them for sure
	pending []entries        // changes since, each of which happens or not
}

// change is a write, or a truncation to at bytes if cut is set.
type change struct {
	at   int64
	data []byte
	cut  bool
}

func (c change) apply(content []byte) []byte {
	if end := int(c.at) + len(c.data); end > len(content) {
		content = append(content, make([]byte, end-len(content))...) // what was not written reads as zeros
	}
	if c.cut {
		return content[:c.at]
	}
	copy(content[c.at:], c.data)
	return content
}

// entries are names with what they get; nil: they are removed.
type entries map[string]*node

func (e entries) apply(to map[string]*node) {
	for name, n := range e {
		if n == nil {
			delete(to, name)
		} else {
			to[name] = n
		}
	}
}

func newFolder() *node {
	return &node{folder: true, entries: map[string]*node{}, stable: map[string]*node{}}
}

// change is one of the entries of a folder that nothing flushed yet.
func (n *node) change(e entries) {
	e.apply(n.entries)
	n.pending = append(n.pending, e)
}

// newDisk is one that has what lies in a folder, all of it flushed.
func newDisk(dir string) (*disk, error) {
	d := &disk{base: dir, root: newFolder()}
	return d, d.root.load(dir)
}

func (n *node) load(dir string) error {
	list, err := os.ReadDir(dir)
	for _, e := range list {
		path := filepath.Join(dir, e.Name())
		child := &node{folder: e.IsDir()}
		if e.IsDir() {
			child = newFolder()
			err = child.load(path)
		} else {
			child.content, err = os.ReadFile(path)
			child.flushed = slices.Clone(child.content)
		}
		if err != nil {
			return err
		}
		n.entries[e.Name()], n.stable[e.Name()] = child, child
	}
	return err
}

// at finds the node of a path, nil if there is none, and the folder that it lies in.
func (d *disk) at(path string) (parent, n *node, name string) {
	rel, err := filepath.Rel(d.base, path)
	if err != nil || strings.HasPrefix(rel, "..") {
		panic("torture: " + path + " lies outside of " + d.base)
	}
	n = d.root
	if rel == "." {
		return nil, n, ""
	}
	for part := range strings.SplitSeq(rel, string(filepath.Separator)) {
		if n == nil {
			panic("torture: the folder of " + path + " is missing")
		}
		parent, n, name = n, n.entries[part], part
	}
	return parent, n, name
}

// do does an operation that succeeded.
func (d *disk) do(op *fault.Op) {
	parent, n, name := d.at(op.Path)
	switch op.Kind {
	case fault.Create:
		if n == nil {
			parent.change(entries{name: &node{}})
		}
	case fault.Mkdir:
		parent.change(entries{name: newFolder()})
	case fault.Write, fault.Truncate:
		c := change{at: op.Offset, data: slices.Clone(op.Data), cut: op.Kind == fault.Truncate}
		n.content = c.apply(n.content)
		n.changes = append(n.changes, c)
	case fault.Sync:
		n.flushed, n.changes = slices.Clone(n.content), nil
	case fault.SyncDir:
		n.stable, n.pending = map[string]*node{}, nil
		for name, child := range n.entries {
			n.stable[name] = child
		}
	case fault.Rename:
		if filepath.Dir(op.Path) != filepath.Dir(op.To) {
			panic("torture: a rename into another folder, which may leave two or none")
		}
		parent.change(entries{name: nil, filepath.Base(op.To): n})
	case fault.Remove:
		parent.change(entries{name: nil})
	case fault.Prune:
		n.prune()
		parent.change(entries{name: nil})
	default:
		panic("torture: the disk does not know how to " + string(op.Kind))
	}
}

func (n *node) prune() {
	for name, child := range n.entries {
		if child.folder {
			child.prune()
		}
		n.change(entries{name: nil})
	}
}

// The states of a disk after a power cut.
const (
	nothing = iota // that was not flushed is there
	all            // as after a kill
	names          // all entries of folders, no content that was not flushed
	some           // any part, drawn
	states  = 8    // some is drawn several times
)

// cut puts what the disk has after a power cut into a folder.
func (d *disk) cut(state int, draw *rand.Rand, dir string) error {
	return d.root.write(min(state, some), draw, dir)
}

func (n *node) write(state int, draw *rand.Rand, path string) error {
	if !n.folder {
		return os.WriteFile(path, n.after(state, draw), 0o666)
	}
	if err := os.MkdirAll(path, 0o777); err != nil {
		return err
	}
	left := map[string]*node{}
	entries(n.stable).apply(left)
	for _, p := range n.pending {
		if state == all || state == names || state == some && draw.IntN(2) == 0 {
			p.apply(left)
		}
	}
	for name, child := range left {
		if err := child.write(state, draw, filepath.Join(path, name)); err != nil {
			return err
		}
	}
	return nil
}

// after is the content of a file: writes may be lost, in any order, and torn.
func (n *node) after(state int, draw *rand.Rand) []byte {
	content := slices.Clone(n.flushed)
	for _, c := range n.changes {
		switch {
		case state == nothing || state == names || state == some && draw.IntN(3) == 0:
			continue
		case state == some && !c.cut && draw.IntN(2) == 0:
			c.data = c.data[:draw.IntN(len(c.data)+1)]
			if draw.IntN(2) == 0 { // the length reached the disk, the data did not
				c.data = make([]byte, len(c.data))
			}
		}
		content = c.apply(content)
	}
	return content
}

// String is for errors.
func stateName(state int) string {
	return fmt.Sprint([]string{"nothing that was not flushed", "all", "names without content", "some"}[min(state, some)], " ", state)
}

package recipe

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"harness.invalid/core/bounded"
	"harness.invalid/core/recipe/builtin"
	"harness.invalid/core/spelling"
)

// Load reads a recipe and applies overrides. ref is the name of a built-in recipe, or a path with a separator or
// the ending .yaml or .yml. An override is PATH=VALUE, such as phases.phase1.steps=10 (see the --set flag).
func Load(ref string, overrides ...string) (*Recipe, error) {
	root, err := newReader(ref).resolve(ref, "", nil)
	if err != nil {
		return nil, err
	}
	return finish(root, nameOf(ref), overrides, nil)
}

// Parse reads a recipe from text. Errors call it name. Paths that it extends are relative to the working folder.
func Parse(name string, text []byte, overrides ...string) (*Recipe, error) {
	root, err := parseRecipe(name, text)
	if err != nil {
		return nil, err
	}
	if root, err = newReader(name).extend(root, "", []string{name}); err != nil {
		return nil, err
	}
	return finish(root, nameOf(name), overrides, nil)
}

// ParseResolved reads a recipe that a run recorded, which may come from anybody. It stands for itself: harness resolves
// what it records, and a stranger's recipe must not have other files of the reader opened and shown.
func ParseResolved(name string, text []byte) (*Recipe, error) {
	root, err := parseRecipe(name, text)
	if err != nil {
		return nil, err
	}
	if parents := root.get("extends"); parents != nil && parents.kind != null {
		return nil, parents.pos.errorf("a recorded recipe extends none")
	}
	return finish(root, nameOf(name), nil, nil)
}

// Text returns a recipe's file as written, with comments and without the recipes that it extends.
func Text(ref string) ([]byte, error) {
	if isPath(ref) {
		text, _, err := newReader(ref).file(ref, ref)
		return text, err
	}
	text, ok := builtin.Read(ref)
	if !ok {
		return nil, noRecipe(ref)
	}
	return text, nil
}

// Names lists the built-in recipes, sorted.
func Names() []string { return builtin.Names() }

func nameOf(ref string) string {
	if !isPath(ref) {
		return ref
	}
	base := filepath.Base(ref)
	return strings.TrimSuffix(strings.TrimSuffix(base, ".yaml"), ".yml")
}

// isPath tells a file from a built-in recipe, whose name may contain slashes too.
func isPath(ref string) bool {
	if strings.HasSuffix(ref, ".yaml") || strings.HasSuffix(ref, ".yml") {
		return true
	}
	if _, ok := builtin.Read(ref); ok {
		return false
	}
	return strings.ContainsRune(ref, '/') || strings.ContainsRune(ref, filepath.Separator)
}

// mostRecipes is how many recipes one may extend in all, however they do.
const mostRecipes = 64

// reader reads a recipe with those that it extends.
type reader struct {
	home string // folder of the file that the user named; "": there is none
	read int    // recipes so far
}

func newReader(ref string) *reader {
	if !isPath(ref) {
		return &reader{}
	}
	return &reader{home: filepath.Dir(ref)}
}

// resolve reads the recipe that ref names, relative to a folder, and the recipes that it extends. above lists the
// recipes on the way here.
func (r *reader) resolve(ref, dir string, above []string) (*node, error) {
	if r.read++; r.read > mostRecipes {
		return nil, fmt.Errorf("it would be recipe %d of those that one recipe extends, want at most %d", r.read, mostRecipes)
	}
	if !isPath(ref) {
		text, ok := builtin.Read(ref)
		if !ok {
			return nil, noRecipe(ref)
		}
		root, err := parseRecipe(ref+" (built in)", text)
		if err != nil {
			return nil, err
		}
		return r.extend(root, "", append(above, ref))
	}
	path := ref
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	text, own, err := r.file(path, ref)
	if err != nil {
		return nil, err
	}
	root, err := parseRecipe(path, text)
	if err != nil {
		if !own && len(above) > 0 {
			err = withoutExcerpts(err)
		}
		return nil, err
	}
	if !own && len(above) > 0 {
		root.forget()
	}
	return r.extend(root, filepath.Dir(path), append(above, path))
}

// mostText is the size of a recipe's file that is read; bounded.YAML says what of it is parsed.
const mostText = bounded.MiB

// file reads a recipe's file; ref is the user's word for it. own says whether it lies in or below the folder of the
// recipe that the user named, where no link leads out of. Errors show lines of such files alone: a stranger's recipe that
// extends /etc/shadow must not put its lines into a log.
func (r *reader) file(path, ref string) (text []byte, own bool, err error) {
	if name, err := filepath.Rel(cmp.Or(r.home, "."), path); err == nil && filepath.IsLocal(name) {
		if text, err = bounded.ReadFileIn(cmp.Or(r.home, "."), name, mostText); err == nil {
			return text, true, nil
		}
	}
	text, err = bounded.ReadFile(path, mostText)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, bounded.As(fs.ErrNotExist, "recipe %s: there is no such file, and no built-in recipe of that name%s", path,
			spelling.Hint(ref, builtin.Names()))
	}
	if err != nil {
		return nil, false, fmt.Errorf("recipe: %w", err)
	}
	return text, false, nil
}

func noRecipe(ref string) error {
	return fmt.Errorf("no recipe is named %q%s (harness recipe list names those that are built in; a file is given as a "+
		"path that ends in .yaml or has a slash, such as ./%s.yaml)",
		ref, spelling.Hint(ref, builtin.Names()), strings.TrimSuffix(ref, filepath.Ext(ref)))
}

// parseRecipe reads one file and rejects unknown keys before it is merged with others.
func parseRecipe(name string, text []byte) (*node, error) {
	root, err := parse(name, text)
	if err != nil {
		return nil, err
	}
	if root.kind != object {
		return nil, root.pos.errorf("the recipe is %v, want an object", root.kind)
	}
	var d decoder
	d.decode(root, reflect.ValueOf(&document{}).Elem(), "")
	return root, d.err()
}

// document is a recipe file: a Recipe, and the keys that build one.
type document struct {
	// Extends is the recipe that this one changes, or several that are merged in order: built-in names, or paths
	// relative to this file.
	Extends []string `yaml:"extends"`
	// Defaults are the defaults of all phases.
	Defaults Phase `yaml:"defaults"`
	Recipe   `yaml:",inline"`
}

// maxExtends is the longest chain of recipes that extend each other.
const maxExtends = 16

// extend merges a recipe with those that it extends. Where several of them set the same key, the last one counts.
func (r *reader) extend(root *node, dir string, above []string) (*node, error) {
	if err := r.expandStart(root, dir, above); err != nil {
		return nil, err
	}
	parents := root.get("extends")
	if parents == nil || parents.kind == null {
		return root, nil
	}
	if len(above) > maxExtends {
		return nil, parents.pos.errorf("more than %d recipes extend each other", maxExtends)
	}
	refs := parents.items
	if parents.kind == scalar {
		refs = []*node{parents}
	}
	var base *node
	for _, parent := range refs {
		ref := parent.text
		seen := ref
		if isPath(ref) && !filepath.IsAbs(ref) {
			seen = filepath.Join(dir, ref)
		}
		if slices.Contains(above, seen) {
			return nil, parent.pos.errorf("recipe extends itself: %s", strings.Join(append(above, seen), " -> "))
		}
		next, err := r.resolve(ref, dir, slices.Clip(above))
		if err != nil {
			var inside *Error
			if errors.As(err, &inside) {
				return nil, err // names its own place
			}
			return nil, parent.pos.errorf("extends: %v", err)
		}
		if next = next.without("extends", "name"); base != nil {
			next = merge(base, next)
		}
		base = next
	}
	if base == nil {
		return root, nil // an empty list
	}
	return merge(base, root.without("extends")), nil
}

// without returns an object without the given keys.
func (n *node) without(keys ...string) *node {
	out := *n
	out.fields = slices.DeleteFunc(slices.Clone(n.fields), func(f field) bool { return slices.Contains(keys, f.key) })
	return &out
}

// finish applies overrides, phase defaults and the caller's change, if any, and checks everything.
func finish(root *node, name string, overrides []string, change func(*Recipe) error) (*Recipe, error) {
	root = root.clone()
	var notes []note
	for _, o := range overrides {
		n, err := set(root, o)
		if err != nil {
			return nil, err
		}
		notes = append(notes, n...)
		if err := new(reader).expandStart(root, "", nil); err != nil {
			return nil, err
		}
	}
	applyDefaults(root)
	var d decoder
	r := &Recipe{}
	r.setDefaults()
	// The merge removed extends. defaults are checked here and then dropped.
	var defaults document
	if n := root.get("defaults"); n != nil {
		d.decode(n, reflect.ValueOf(&defaults.Defaults).Elem(), "defaults")
	}
	d.decode(root.without("defaults"), reflect.ValueOf(r).Elem(), "")
	if err := d.err(); err != nil {
		return nil, err
	}
	if r.Name == "" {
		r.Name = name
	}
	if change != nil {
		if err := change(r); err != nil {
			return nil, err
		}
	}
	for _, n := range notes {
		if slices.ContainsFunc(r.Phases, func(p Phase) bool { return p.Name == n.phase }) {
			r.Notes = append(r.Notes, n.text)
		}
	}
	if err := r.settle(); err != nil {
		var f *fieldError
		if errors.As(err, &f) {
			return nil, root.nearest(f.path).errorf("%v", f)
		}
		return nil, err
	}
	return r, nil
}

// nearest returns the position of the value at a path, or of its nearest parent.
func (n *node) nearest(path []string) position {
	if len(path) == 0 {
		return n.pos
	}
	switch n.kind {
	case object:
		if i := n.find(path[0]); i >= 0 {
			if len(path) == 1 && n.fields[i].value.kind != object && n.fields[i].value.kind != list {
				return n.fields[i].value.pos
			}
			return n.fields[i].value.nearest(path[1:])
		}
	case list:
		if items, err := n.pick(path[0]); err == nil && len(items) == 1 {
			return n.items[items[0]].nearest(path[1:])
		}
	}
	return n.pos
}

package recipe

import (
	"fmt"
	"strconv"
	"strings"

	"harness.invalid/core/spelling"
)

// merge puts over on top of base and returns the result; neither changes. Objects are merged key by key; a null
// resets a key to its default. Lists of named items (phases) are merged by name, new items last; any other list is
// replaced. An object with a new name (another optimizer) is replaced as a whole, since its old settings would not
// fit.
func merge(base, over *node) *node { return mergeAt(base, over, true) }

func mergeAt(base, over *node, root bool) *node {
	switch {
	case base.kind == object && over.kind == object:
		if !root && base.name() != "" && over.name() != "" && base.name() != over.name() {
			return over.clone()
		}
		out := base.clone()
		out.pos = over.pos
		for _, f := range over.fields {
			i := out.find(f.key)
			switch {
			case i < 0:
				out.fields = append(out.fields, field{f.key, f.pos, f.value.clone()})
			default:
				out.fields[i] = field{f.key, f.pos, mergeAt(out.fields[i].value, f.value, false)}
			}
		}
		return out
	case base.kind == list && over.kind == list && named(base) && named(over):
		out := base.clone()
		out.pos = over.pos
		for _, item := range over.items {
			if i := out.indexNamed(item.name()); i >= 0 {
				out.items[i] = mergeAt(out.items[i], item, false)
			} else {
				out.items = append(out.items, item.clone())
			}
		}
		return out
	}
	return over.clone()
}

// named reports whether all items of a list have names.
func named(n *node) bool {
	for _, item := range n.items {
		if item.name() == "" {
			return false
		}
	}
	return len(n.items) > 0
}

func (n *node) indexNamed(name string) int {
	for i, item := range n.items {
		if item.name() == name {
			return i
		}
	}
	return -1
}

// set applies an override a.b.c=VALUE: a key of an object, a number or a name of an item of a list, or * for all
// items. The value is YAML.
func set(root *node, override string) (notes []note, err error) {
	src := &source{name: "--set " + override}
	whole := position{source: src}
	path, text, ok := strings.Cut(override, "=")
	if !ok || path == "" {
		return nil, whole.errorf("want a path, = and a value, such as phases.0.steps=10")
	}
	value := &node{pos: whole}
	if strings.TrimSpace(text) != "" {
		parsed, err := parse(src.name, []byte(text))
		if err != nil {
			return nil, err
		}
		value = parsed
		value.moveTo(whole)
	}
	keys := strings.Split(path, ".")
	if err := setAt(root, keys, value, ""); err != nil {
		return nil, err
	}
	if last := len(keys) - 1; last == 2 && keys[0] == "phases" && value.kind == scalar {
		notes = root.replaceLength(keys[1], keys[2], value.text)
	}
	return notes, nil
}

// note says what an override changed in a phase beside what it names.
type note struct{ phase, text string }

// lengths are the two ways in which a phase says how long it is.
var lengths = map[string]string{"steps": "epochs", "epochs": "steps"}

// replaceLength takes the steps out of phases whose epochs an override has set, and the other way round, since a phase has
// one of the two. What overrides set both ways stays, and is refused.
func (n *node) replaceLength(phase, key, value string) (notes []note) {
	other, phases := lengths[key], n.get("phases")
	if other == "" {
		return nil
	}
	items, _ := phases.pick(phase) // setAt has found them
	for _, i := range items {
		item := phases.items[i]
		had := item.get(other)
		if had != nil && (had.kind != scalar || had.pos.line == 0) {
			continue // nothing, or an override
		}
		if had == nil {
			if defaults := n.get("defaults"); defaults != nil {
				had = defaults.get(other)
			}
			if had == nil || had.kind != scalar {
				continue
			}
		}
		none := field{other, item.pos, &node{pos: item.pos}}
		*item = *mergeAt(item, &node{kind: object, pos: item.pos, fields: []field{none}}, false)
		notes = append(notes, note{item.name(),
			fmt.Sprintf("phase %s: %s=%s takes the place of %s=%s", item.name(), key, value, other, had.text)})
	}
	return notes
}

// moveTo sets all positions of a tree to one place: an override has no useful lines and columns.
func (n *node) moveTo(p position) {
	n.pos = p
	for _, item := range n.items {
		item.moveTo(p)
	}
	for i := range n.fields {
		n.fields[i].pos = p
		n.fields[i].value.moveTo(p)
	}
}

// setAt sets the value at a path below n and creates objects on the way.
func setAt(n *node, path []string, value *node, done string) error {
	key := path[0]
	here := strings.TrimPrefix(done+"."+key, ".")
	if key == "" {
		return value.pos.errorf("%q is not a path", strings.Join(path, "."))
	}
	switch n.kind {
	case list:
		items, err := n.pick(key)
		if err != nil {
			return value.pos.errorf("%s: %v", here, err)
		}
		for _, i := range items {
			if len(path) == 1 {
				n.items[i] = mergeAt(n.items[i], value, false)
			} else if err := setAt(n.items[i], path[1:], value, here); err != nil {
				return err
			}
		}
		return nil
	case scalar:
		return value.pos.errorf("%s: %s is a single value and has nothing called %s", here, done, key)
	}
	if len(path) == 1 {
		over := &node{kind: object, pos: value.pos, fields: []field{{key, value.pos, value}}}
		if n.kind == null {
			n.kind = object
		}
		*n = *mergeAt(n, over, done == "")
		return nil
	}
	n.kind = object
	next := n.get(key)
	if next == nil {
		next = &node{kind: object, pos: value.pos}
		n.fields = append(n.fields, field{key, value.pos, next})
	}
	return setAt(next, path[1:], value, here)
}

// pick returns the items of a list that a key of a path selects.
func (n *node) pick(key string) ([]int, error) {
	if key == "*" {
		all := make([]int, len(n.items))
		for i := range all {
			all[i] = i
		}
		return all, nil
	}
	if i := n.indexNamed(key); i >= 0 {
		return []int{i}, nil
	}
	if i, err := strconv.Atoi(key); err == nil {
		if i < 0 || i >= len(n.items) {
			return nil, fmt.Errorf("the list has %d items, want 0 to %d", len(n.items), len(n.items)-1)
		}
		return []int{i}, nil
	}
	var names []string
	for _, item := range n.items {
		if name := item.name(); name != "" {
			names = append(names, name)
		}
	}
	return nil, fmt.Errorf("no item is named %q%s (known: %s)", key, spelling.Hint(key, names), strings.Join(names, ", "))
}

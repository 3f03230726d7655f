// Package machine reads descriptions of systems: small YAML files of chips, links and hosts, with a source for every
// figure. Each backend has its own kind of description, its own catalog, and its own model that computes with them.
//
// The package also holds what these models share: the time of a ring, and the fit of a model's constants to published
// throughput.
package machine

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"harness.invalid/core/backend"
	"harness.invalid/core/bounded"
	"harness.invalid/core/spelling"
)

// System is a description that can be checked.
type System interface {
	// Validate reports the first field that no system could have.
	Validate() error
	// Line says in one line what the system is.
	Line() string
}

// maxExtends is the longest chain of descriptions that extend each other.
const maxExtends = 8

// Catalog is a folder of descriptions, NAME.yaml.
type Catalog[T any, P interface {
	*T
	System
}] struct {
	Files fs.FS
}

// Names lists the built-in systems, sorted. Files whose names begin with an underscore are only there to be extended.
func (c Catalog[T, P]) Names() []string {
	entries, _ := fs.ReadDir(c.Files, ".")
	var names []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".yaml"); ok && !strings.HasPrefix(name, "_") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// List returns the systems of Names.
func (c Catalog[T, P]) List() ([]backend.System, error) {
	var list []backend.System
	for _, name := range c.Names() {
		s, err := c.Load(name)
		if err != nil {
			return nil, err
		}
		list = append(list, backend.System{Name: name, Doc: P(s).Line()})
	}
	return list, nil
}

// Load returns the system of a name.
func (c Catalog[T, P]) Load(name string) (*T, error) {
	if names := c.Names(); !slices.Contains(names, name) {
		return nil, fmt.Errorf("no system is named %q%s (known: %s; a file of your own is given as a path, such as ./%s.yaml)",
			name, spelling.Hint(name, names), strings.Join(names, ", "), name)
	}
	text, err := fs.ReadFile(c.Files, name+".yaml")
	if err != nil {
		return nil, err
	}
	return c.Parse(string(text))
}

// Chips are those of the systems that rows ran on, one for each row.
func (c Catalog[T, P]) Chips(rows []Row, chip func(*T) string) ([]string, error) {
	of := map[string]string{} // by system
	chips := make([]string, len(rows))
	for i, r := range rows {
		if _, ok := of[r.System]; !ok {
			s, err := c.Load(r.System)
			if err != nil {
				return nil, err
			}
			of[r.System] = chip(s)
		}
		chips[i] = of[r.System]
	}
	return chips, nil
}

// None is the name of no system: nothing is modelled.
const None = "none"

// Find returns the system that a host asks for, by description or name, or else the one that the backend's option
// names. The option None gives an ErrUnsupported.
func (c Catalog[T, P]) Find(on backend.Machine, option string) (*T, error) {
	switch {
	case on.Description != "":
		return c.Parse(on.Description)
	case on.System != "":
		return c.Load(on.System)
	case option == None:
		return nil, fmt.Errorf("the option system is %s: nothing is modelled: %w", None, backend.ErrUnsupported)
	}
	return c.Load(option)
}

// Parse reads a description. One that extends another changes single fields of it.
func (c Catalog[T, P]) Parse(text string) (*T, error) {
	if err := bounded.YAML([]byte(text)); err != nil {
		return nil, fmt.Errorf("system: %w", err)
	}
	s := new(T)
	if err := c.lay(s, text, 0); err != nil {
		return nil, fmt.Errorf("system: %w", err)
	}
	if err := P(s).Validate(); err != nil {
		return nil, fmt.Errorf("system: %w", err)
	}
	return s, nil
}

// lay decodes a description into s, on top of the one that it extends.
func (c Catalog[T, P]) lay(s *T, text string, depth int) error {
	if depth > maxExtends {
		return fmt.Errorf("more than %d descriptions extend each other", maxExtends)
	}
	var head struct {
		Extends string `yaml:"extends"`
	}
	if err := yaml.Unmarshal([]byte(text), &head); err != nil {
		return place(err)
	}
	if head.Extends != "" {
		parent, err := fs.ReadFile(c.Files, head.Extends+".yaml")
		if err != nil || !fs.ValidPath(head.Extends) {
			names := c.Names()
			return fmt.Errorf("extends %q: no system has that name%s (known: %s)",
				head.Extends, spelling.Hint(head.Extends, names), strings.Join(names, ", "))
		}
		if err := c.lay(s, string(parent), depth+1); err != nil {
			return err
		}
	}
	d := yaml.NewDecoder(bytes.NewReader([]byte(text)), yaml.Strict())
	err := d.Decode(s)
	var unknown *yaml.UnknownFieldError
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case errors.As(err, &unknown):
		key, known := unknown.GetToken().Value, keysOf(reflect.TypeFor[T]())
		return fmt.Errorf("%q is no key of a system%s (known: %s)\n%w", key, hint(key, known), strings.Join(known, ", "), place(err))
	case err != nil:
		return place(err)
	}
	return nil
}

// keysOf are the keys of a description, such as chip.tiles.
func keysOf(t reflect.Type) []string {
	var list []string
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if f.Type.Kind() != reflect.Struct {
			list = append(list, name)
			continue
		}
		for _, key := range keysOf(f.Type) {
			list = append(list, name+"."+key)
		}
	}
	return list
}

// hint suggests the known key with the nearest spelling, at any level.
func hint(key string, known []string) string {
	names := make([]string, len(known))
	for i, k := range known {
		names[i] = k[strings.LastIndexByte(k, '.')+1:]
	}
	near := spelling.Nearest(key, names)
	if near == "" {
		return ""
	}
	return ", did you mean " + known[slices.Index(names, near)] + "?"
}

// place formats an error of the YAML library: position, message and the line itself.
func place(err error) error {
	return errors.New(strings.TrimSpace(yaml.FormatError(err, false, true)))
}

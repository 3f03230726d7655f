// Package format describes number formats as data: small YAML files of element formats, and of blocks of elements
// that share a scale.
//
// A name or a file goes in and a Format comes out, which rounds float32 values to those that the narrow format also
// has. Element.Round and Format.Quantize are scalar and are the specification; Caster does the same to slices, bit
// for bit.
package format

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"harness.invalid/core/bounded"
	"harness.invalid/core/spelling"
)

// ErrInvalid marks a description of a format that cannot exist.
var ErrInvalid = errors.New("invalid format")

// Format is a description: of elements, and where Scale is set of the blocks that share a scale.
type Format struct {
	Name    string  `yaml:"-" json:"name"`
	Doc     string  `yaml:"doc" json:"doc"`
	Source  string  `yaml:"source" json:"source,omitempty"`
	Element Element `yaml:"element" json:"element"`
	Scale   *Scale  `yaml:"scale,omitempty" json:"scale,omitempty"`
}

//go:embed builtin/*.yaml
var builtin embed.FS

// Names lists the built-in formats, sorted.
func Names() []string {
	entries, err := builtin.ReadDir("builtin")
	if err != nil {
		panic(err) // embedded
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	slices.Sort(names)
	return names
}

// mostText is the size of a file that is read; bounded.YAML says what of it is parsed.
const mostText = bounded.MiB

// Load reads a format. ref is the name of a built-in one, or the path of a file that ends in .yaml or .yml.
func Load(ref string) (*Format, error) {
	if ext := filepath.Ext(ref); ext == ".yaml" || ext == ".yml" {
		text, err := bounded.ReadFile(ref, mostText)
		if err != nil {
			return nil, fmt.Errorf("format: %w", err)
		}
		return Parse(strings.TrimSuffix(filepath.Base(ref), ext), text)
	}
	text, err := Text(ref)
	if err != nil {
		return nil, err
	}
	return Parse(ref, text)
}

// Text returns the description of a built-in format as written.
func Text(name string) ([]byte, error) {
	names := Names()
	if !slices.Contains(names, name) {
		return nil, fmt.Errorf("no format is named %q%s (known: %s; a file of your own is given as a path, such as ./%s.yaml)",
			name, spelling.Hint(name, names), strings.Join(names, ", "), name)
	}
	return builtin.ReadFile("builtin/" + name + ".yaml")
}

// Parse reads a description; errors call it name.
func Parse(name string, text []byte) (*Format, error) {
	f, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("format %s: %w", name, err)
	}
	f.Name = name
	return f, nil
}

func parse(text []byte) (*Format, error) {
	var head struct {
		Element struct {
			Like string `yaml:"like"`
		} `yaml:"element"`
	}
	f := &Format{}
	if err := bounded.YAML(text); err != nil {
		return nil, err
	}
	if err := yaml.Unmarshal(text, &head); err != nil {
		return nil, place(err)
	}
	if like := head.Element.Like; like != "" {
		known, err := Text(like)
		if err != nil {
			return nil, fmt.Errorf("element.like: %w", err)
		}
		base, err := parse(known)
		if err != nil {
			return nil, fmt.Errorf("element.like: %w", err)
		}
		if base.Scale != nil {
			return nil, fmt.Errorf("element.like is %s, which has a scale: want a format of elements alone: %w", like, ErrInvalid)
		}
		f.Element = base.Element
	}
	d := yaml.NewDecoder(bytes.NewReader(text), yaml.Strict())
	if err := d.Decode(f); err != nil && !errors.Is(err, io.EOF) {
		return nil, strict(err)
	}
	if err := d.Decode(new(Format)); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("a second document follows the first, want one: %w", ErrInvalid)
	}
	f.Element.Like = ""
	return f, f.settle()
}

// settle fills in defaults and checks.
func (f *Format) settle() error {
	f.Element.setDefaults()
	if err := f.Element.Validate(); err != nil {
		return fmt.Errorf("element: %w", err)
	}
	if f.Scale == nil {
		return nil
	}
	f.Scale.setDefaults()
	if err := f.Scale.settle(); err != nil {
		return fmt.Errorf("scale: %w", err)
	}
	return nil
}

// strict says which keys there are where one is unknown.
func strict(err error) error {
	var unknown *yaml.UnknownFieldError
	if !errors.As(err, &unknown) {
		return place(err)
	}
	known := keysOf(reflect.TypeFor[Format](), "")
	key := unknown.GetToken().Value
	last := make([]string, len(known))
	for i, k := range known {
		last[i] = k[strings.LastIndexByte(k, '.')+1:]
	}
	return fmt.Errorf("%q is no key of a format%s (known: %s)\n%w", key, spelling.Hint(key, last), strings.Join(known, ", "), place(err))
}

// place formats an error of the YAML library: position, message and the line itself.
func place(err error) error { return errors.New(strings.TrimSpace(yaml.FormatError(err, false, true))) }

// keysOf are the keys of a description, such as element.bias.
func keysOf(t reflect.Type, prefix string) []string {
	var list []string
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ",")
		if name == "-" || name == "" {
			continue
		}
		ft := t.Field(i).Type
		if ft.Kind() == reflect.Pointer {
			ft = ft.Elem()
		}
		if ft.Kind() == reflect.Struct {
			list = append(list, keysOf(ft, prefix+name+".")...)
		} else {
			list = append(list, prefix+name)
		}
	}
	return list
}

// Write writes the description with everything filled in, as YAML.
func (f *Format) Write(w io.Writer) error {
	text, err := yaml.MarshalWithOptions(f, yaml.Indent(2))
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}

// With returns the format with another rounding and overflow of its elements, and scale rule; what is empty stays.
func (f *Format) With(r Rounding, o Overflow, rule Rule) (*Format, error) {
	g := *f
	if r != "" {
		g.Element.Rounding, g.Element.RandomBits = r, 0
	}
	if o != "" {
		g.Element.Overflow = o
	}
	if rule != "" {
		if f.Scale == nil {
			return nil, fmt.Errorf("format %s has no scale, so no rule %s of one: %w", f.Name, rule, ErrInvalid)
		}
		s := *f.Scale
		s.Rule, g.Scale = rule, &s
	}
	if err := g.settle(); err != nil {
		return nil, fmt.Errorf("format %s: %w", f.Name, err)
	}
	return &g, nil
}

// Line says in one line what the format is.
func (f *Format) Line() string {
	e := &f.Element
	text := fmt.Sprintf("%d bits: exponent %d, mantissa %d", e.Bits(), e.Exponent, e.Mantissa)
	if e.Exponent == 0 {
		text = fmt.Sprintf("%d bits: fixed point", e.Bits())
	}
	if f.Scale != nil {
		text += ", " + f.Scale.line()
	}
	return text
}

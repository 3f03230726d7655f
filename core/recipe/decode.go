package recipe

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"

	"harness.invalid/core/spelling"
)

// decoder fills Go values from nodes. It continues after a mistake, so that all mistakes in a file are reported at
// once.
type decoder struct{ errs []error }

// maxErrors limits the mistakes reported at a time.
const maxErrors = 10

func (d *decoder) failf(p position, format string, args ...any) {
	if len(d.errs) < maxErrors {
		d.errs = append(d.errs, p.errorf(format, args...))
	}
}

func (d *decoder) err() error { return errors.Join(d.errs...) }

// defaulter is a type with defaults other than zero.
type defaulter interface{ setDefaults() }

// nodeDecoder is a type that sees its node before its fields are filled in.
type nodeDecoder interface {
	prepare(d *decoder, n *node)
}

// decode fills v, which must be settable, from n. path is its place in the recipe.
func (d *decoder) decode(n *node, v reflect.Value, path string) {
	if n.kind == null {
		return // keeps the default
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		prepare(v)
		d.decode(n, v.Elem(), path)
	case reflect.Struct:
		if n.kind != object {
			d.failf(n.pos, "%s is %v, want an object with %s", path, n.kind, strings.Join(keysOf(v.Type()), ", "))
			return
		}
		if p, ok := v.Addr().Interface().(nodeDecoder); ok {
			p.prepare(d, n)
		}
		d.object(n, v, path)
	case reflect.Map:
		if n.kind != object {
			d.failf(n.pos, "%s is %v, want an object", path, n.kind)
			return
		}
		v.SetZero()
		if len(n.fields) > 0 {
			v.Set(reflect.MakeMap(v.Type()))
		}
		for _, f := range n.fields {
			value := reflect.New(v.Type().Elem())
			prepare(value)
			d.decode(f.value, value.Elem(), path+"."+f.key)
			v.SetMapIndex(reflect.ValueOf(f.key).Convert(v.Type().Key()), value.Elem())
		}
	case reflect.Slice:
		items := n.items
		if n.kind == scalar && v.Type().Elem().Kind() == reflect.String {
			items = []*node{n} // one name is a list of one
		} else if n.kind != list {
			d.failf(n.pos, "%s is %v, want a list", path, n.kind)
			return
		}
		v.SetZero()
		if len(items) > 0 {
			v.Set(reflect.MakeSlice(v.Type(), len(items), len(items)))
		}
		for i, item := range items {
			prepare(v.Index(i).Addr())
			at := strconv.Itoa(i)
			if name := item.name(); name != "" {
				at = name
			}
			d.decode(item, v.Index(i), path+"."+at)
		}
	default:
		if n.kind != scalar {
			d.failf(n.pos, "%s is %v, want a single value", path, n.kind)
			return
		}
		if err := setScalar(v, n.text); err != nil {
			d.failf(n.pos, "%s is %q, want %v", path, n.text, err)
		}
	}
}

// prepare sets the defaults of what a pointer points to.
func prepare(pointer reflect.Value) {
	if p, ok := pointer.Interface().(defaulter); ok {
		p.setDefaults()
	}
}

func (d *decoder) object(n *node, v reflect.Value, path string) {
	for _, f := range n.fields {
		at := strings.TrimPrefix(path+"."+f.key, ".")
		member := memberOf(v, f.key)
		if !member.IsValid() {
			keys := keysOf(v.Type())
			where := ""
			if path != "" {
				where = " in " + path
			}
			d.failf(f.pos, "unknown key %q%s%s (known: %s)", f.key, where, spelling.Hint(f.key, keys), strings.Join(keys, ", "))
			continue
		}
		d.decode(f.value, member, at)
	}
}

// keysOf lists the keys of a struct, including those of embedded structs.
func keysOf(t reflect.Type) []string {
	var keys []string
	for i := range t.NumField() {
		switch key, inline := keyOf(t.Field(i)); {
		case inline:
			keys = append(keys, keysOf(t.Field(i).Type)...)
		case key != "":
			keys = append(keys, key)
		}
	}
	return keys
}

// memberOf returns the field of a struct for a key, or the zero Value.
func memberOf(v reflect.Value, key string) reflect.Value {
	for i := range v.NumField() {
		switch k, inline := keyOf(v.Type().Field(i)); {
		case inline:
			if m := memberOf(v.Field(i), key); m.IsValid() {
				return m
			}
		case k == key:
			return v.Field(i)
		}
	}
	return reflect.Value{}
}

func keyOf(f reflect.StructField) (key string, inline bool) {
	key, rest, _ := strings.Cut(f.Tag.Get("yaml"), ",")
	if key == "-" {
		key = ""
	}
	return key, rest == "inline"
}

// setScalar parses text as v's type. Its error says what is wanted.
func setScalar(v reflect.Value, text string) error {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		switch text {
		case "true", "false":
			v.SetBool(text == "true")
		default:
			return errors.New("true or false")
		}
	case reflect.Int:
		i, err := strconv.Atoi(text)
		if err != nil {
			return errors.New("a whole number")
		}
		v.SetInt(int64(i))
	case reflect.Float64:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			return errors.New("a number")
		}
		v.SetFloat(f)
	default:
		return fmt.Errorf("a %s, which no recipe holds", v.Kind())
	}
	return nil
}

// prepare applies the size before any other key of the model.
func (m *Model) prepare(d *decoder, n *node) {
	size := n.get("size")
	if size == nil || size.kind != scalar {
		return
	}
	c, err := m.Config.Size(size.text)
	if err != nil {
		d.failf(size.pos, "model.size: %v", err)
		return
	}
	m.Config = c
}

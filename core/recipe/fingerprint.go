package recipe

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"

	"github.com/goccy/go-yaml"
)

// Fingerprint is a SHA-256, in hexadecimal, over everything that must be equal for two runs to be compared. It
// leaves out settings of single backends (backends), explanations (name, doc, source, counterpart), the rule that
// judges results (verdict), paths (data.files: a digest covers their contents), and what changes no number
// (checkpoint_every, restarts).
func (r *Recipe) Fingerprint() string {
	h := sha256.New()
	io.WriteString(h, "harness recipe 1\n")
	h.Write(r.identity().canonical())
	return hex.EncodeToString(h.Sum(nil))
}

// identity is the part of a recipe that the fingerprint covers.
func (r *Recipe) identity() *Recipe {
	id := *r
	id.Name, id.Doc, id.Source, id.Restarts, id.Backends, id.Counterpart, id.Verdict = "", "", "", 0, nil, nil, Verdict{}
	id.Phases = withoutCheckpoints(r.Phases)
	if r.Start != nil {
		id.Start = &Start{Seed: r.Start.Seed, Phases: withoutCheckpoints(r.Start.Phases)}
	}
	return &id
}

func withoutCheckpoints(phases []Phase) []Phase {
	phases = slices.Clone(phases)
	for i := range phases {
		phases[i].CheckpointEvery = 0
	}
	return phases
}

// canonical is JSON with sorted keys and the shortest numbers that round-trip.
func (r *Recipe) canonical() []byte {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(r); err != nil {
		panic("recipe: a recipe can't be written as JSON") // Load takes no infinities, and there are no other reasons
	}
	return out.Bytes()
}

// Write writes the recipe with all its values. Parse reads it back as the same recipe.
func (r *Recipe) Write(w io.Writer) error {
	return yaml.NewEncoder(w, yaml.UseLiteralStyleIfMultiline(true)).Encode(r)
}

// Difference is a field in which two recipes differ.
type Difference struct {
	Path string `json:"path"` // phases.squad.steps
	A    string `json:"a"`    // value in the first recipe as JSON; empty: missing there
	B    string `json:"b"`
	// Identity reports whether the field is part of the fingerprint.
	Identity bool `json:"identity"`
}

func (d Difference) String() string {
	show := func(v string) string {
		if v == "" {
			return "not there"
		}
		return v
	}
	return fmt.Sprintf("%s: %s, %s", d.Path, show(d.A), show(d.B))
}

// Diff lists the fields in which two recipes differ, sorted by path. Phases are matched by name; Path contains the
// name.
func Diff(a, b *Recipe) []Difference {
	all := compare(flatten(a), flatten(b))
	identity := compare(flatten(a.identity()), flatten(b.identity()))
	for i := range all {
		all[i].Identity = slices.ContainsFunc(identity, func(d Difference) bool { return d.Path == all[i].Path })
	}
	// The order of phases matters, but no field of a phase shows it.
	if x, y := a.phaseNames(), b.phaseNames(); !slices.Equal(x, y) {
		all = append(all, Difference{"phases", fmt.Sprint(x), fmt.Sprint(y), true})
		slices.SortStableFunc(all, func(d, e Difference) int { return bytes.Compare([]byte(d.Path), []byte(e.Path)) })
	}
	return all
}

func compare(a, b map[string]string) []Difference {
	paths := maps.Clone(a)
	maps.Copy(paths, b)
	var out []Difference
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		if a[path] != b[path] {
			out = append(out, Difference{Path: path, A: a[path], B: b[path]})
		}
	}
	return out
}

// Fields maps the path of every single value of the recipe to its JSON: phases.squad.steps. Phases go by name.
func (r *Recipe) Fields() map[string]string { return flatten(r) }

// flatten collects every single value of a recipe under its path.
func flatten(r *Recipe) map[string]string {
	var tree map[string]any
	dec := json.NewDecoder(bytes.NewReader(r.canonical()))
	dec.UseNumber()
	if err := dec.Decode(&tree); err != nil {
		panic("recipe: canonical JSON can't be read back")
	}
	out := make(map[string]string)
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for key, value := range v {
				walk(path+"."+key, value)
			}
		case []any:
			for i, value := range v {
				at := strconv.Itoa(i)
				if m, ok := value.(map[string]any); ok && m["name"] != nil {
					at = fmt.Sprint(m["name"])
				}
				walk(path+"."+at, value)
			}
		default:
			text, err := json.Marshal(v)
			if err != nil {
				panic("recipe: a JSON value can't be written")
			}
			out[path[1:]] = string(text)
		}
	}
	walk("", tree)
	return out
}

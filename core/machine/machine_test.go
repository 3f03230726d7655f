package machine

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/fstest"

	"harness.invalid/core/backend"
)

type boat struct {
	Name    string  `yaml:"name"`
	Extends string  `yaml:"extends"`
	Metres  float64 `yaml:"metres"`
	Sail    struct {
		Colour string `yaml:"colour"`
		Area   int    `yaml:"area"`
	} `yaml:"sail"`
}

func (b *boat) Validate() error {
	if b.Metres <= 0 {
		return errors.New("metres: want more than 0")
	}
	return nil
}

func (b *boat) Line() string { return "a boat" }

var boats = Catalog[boat, *boat]{Files: fstest.MapFS{
	"dinghy.yaml": {Data: []byte("name: dinghy\nmetres: 3\n")},
	"yacht.yaml":  {Data: []byte("extends: dinghy\nname: yacht\nmetres: 12\nsail: {colour: white, area: 30}\n")},
	"_part.yaml":  {Data: []byte("metres: 1\n")},
	"loop.yaml":   {Data: []byte("extends: loop\n")},
}}

func TestCatalog(t *testing.T) {
	if names := strings.Join(boats.Names(), " "); names != "dinghy loop yacht" {
		t.Errorf("names %q", names)
	}
	if b, err := boats.Parse("extends: yacht\nname: mine"); err != nil || b.Name != "mine" || b.Metres != 12 {
		t.Errorf("%+v, %v", b, err)
	}
	if b, err := boats.Parse("extends: yacht\nsail:\n  colour: red"); err != nil || b.Sail.Colour != "red" || b.Sail.Area != 30 {
		t.Errorf("a single field of a part: %+v, %v", b, err)
	}
	for text, want := range map[string]string{
		"metres: 0":           "want more than 0",
		"feet: 3":             `"feet" is no key of a system (known: name, extends, metres, sail.colour, sail.area)`,
		"metre: 3":            "did you mean metres?",
		"colour: red":         "did you mean sail.colour?",
		"sail:\n  color: red": "2 |   color: red",
		"extends: yach":       "did you mean yacht?",
		"extends: ../etc":     "no system has that name",
		"extends: loop":       "extend each other",
		"metres: [":           "system:",
		"metres: many":        "metres",
	} {
		if _, err := boats.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error with %q", text, err, want)
		}
	}
	if _, err := boats.Load("_part"); err == nil {
		t.Error("a part is loaded as a system")
	}
	if _, err := boats.Load("yaht"); err == nil || !strings.Contains(err.Error(), "did you mean yacht?") {
		t.Errorf("%v", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"", "name: a\nmetres: 1", "extends: yacht", "extends: loop", "- 1", "metres: 1e999", "\x00"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if b, err := boats.Parse(text); err == nil && b.Metres <= 0 {
			t.Errorf("%q: %+v was not checked", text, b)
		}
	})
}

// TestRing: one member sends nothing; of many each sends all but its own share.
func TestRing(t *testing.T) {
	for _, c := range []struct {
		n    int
		want float64
	}{{1, 0}, {2, 0.5 + 0.1}, {4, 0.75 + 0.3}} {
		if got := RingSeconds(c.n, 100, 100, 0.1); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%d members: %g s, want %g", c.n, got, c.want)
		}
	}
}

// TestFit finds two constants again from rows that were made with them, and the same ones every time.
func TestFit(t *testing.T) {
	rows := []Row{{Name: "a", MicroBatch: 1}, {Name: "b", MicroBatch: 4}, {Name: "c", MicroBatch: 16}}
	of := func(r *Row, c []float64) (float64, error) { return 1 / (c[0] + c[1]/float64(r.MicroBatch)), nil }
	for i := range rows {
		rows[i].SequencesPerSecond, _ = of(&rows[i], []float64{3, 7})
	}
	got, err := Fit(rows, []float64{1, 1}, of)
	if err != nil || math.Abs(got[0]/3-1) > 0.02 || math.Abs(got[1]/7-1) > 0.02 {
		t.Errorf("%v, %v, want 3 and 7", got, err)
	}
	again, err := Fit(rows, []float64{1, 1}, of)
	if err != nil || got[0] != again[0] || got[1] != again[1] {
		t.Errorf("%v, then %v, %v", got, again, err)
	}
	failed := errors.New("no such row")
	if _, err := Fit(rows, []float64{1}, func(*Row, []float64) (float64, error) { return 0, failed }); !errors.Is(err, failed) {
		t.Errorf("%v", err)
	}
}

// TestRemedy: one change where one is enough, the one that is fastest; two that only help together; none where nothing does.
func TestRemedy(t *testing.T) {
	p := backend.Program{MicroBatch: 8, Accumulation: 4, Replicas: 2}
	kinds := [][]Change{
		{{Words: "more work", Options: map[string]string{"again": "true"}}},
		{{Words: "less state", Options: map[string]string{"away": "true"}}}, nil,
	}
	for _, n := range Smaller(&p) {
		kinds[2] = append(kinds[2], Change{Words: fmt.Sprint(n), Apply: func(p *backend.Program) {
			p.MicroBatch, p.Accumulation = n, p.Accumulation*p.MicroBatch/n
		}})
	}
	for _, c := range []struct {
		room, want string
	}{
		{"fits at 4", "4 map[] 4 8 2"},
		{"wants both", "more work, with less state map[again:true away:true] 8 4 2"},
		{"wants all", "more work, with less state, with 2 map[again:true away:true] 2 16 2"},
		{"wants nothing", " <nil>"},
	} {
		words, r := Remedy(p, kinds, func(p backend.Program) (float64, bool) {
			both := p.Options["again"] == "true" && p.Options["away"] == "true"
			fits := map[string]bool{"fits at 4": p.MicroBatch <= 4, "wants both": both, "wants all": both && p.MicroBatch <= 2}[c.room]
			return float64(p.MicroBatch), fits
		})
		got := words + " <nil>"
		if r != nil {
			got = fmt.Sprint(words, " ", r.Options, r.MicroBatch, r.Accumulation, r.Replicas)
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.room, got, c.want)
		}
	}
}

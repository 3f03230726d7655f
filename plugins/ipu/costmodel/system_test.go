package costmodel

import (
	"math"
	"strings"
	"testing"

	"harness.invalid/core/backend"
)

// system loads a built-in system.
func system(t testing.TB, name string) *System {
	t.Helper()
	s, err := Systems.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestPeak rebuilds what is published of chips and systems from their parts: 250 and 350 teraFLOPS FP16.16, 900 MB,
// 15.978 and 89.23 petaFLOPS.
func TestPeak(t *testing.T) {
	for name, want := range map[string]float64{
		"ipu-pod4": 4 * 250e12, "bow-pod4": 4 * 350e12, "ipu-pod64": 15.978e15, "ipu-pod128": 31.955e15, "bow-pod256": 89.23e15,
	} {
		s := system(t, name)
		if got := float64(s.IPUs) * s.Chip.PeakFlops(); math.Abs(got/want-1) > 0.01 {
			t.Errorf("%s: %.4g FLOPS, published %.4g", name, got, want)
		}
		if got := float64(s.Chip.SRAMBytes()); math.Abs(got/900e6-1) > 0.05 {
			t.Errorf("%s: %.4g bytes a chip, published 900 MB", name, got)
		}
	}
}

// TestSystems: every description has a doc and sources, and its name is that of its file.
func TestSystems(t *testing.T) {
	names := Systems.Names()
	if len(names) != 10 {
		t.Errorf("%d systems: %v", len(names), names)
	}
	for _, name := range names {
		if s := system(t, name); s.Name != name || s.Doc == "" || len(s.Sources) == 0 {
			t.Errorf("%s: name %q, doc %q, %d sources", name, s.Name, s.Doc, len(s.Sources))
		}
	}
	for text, want := range map[string]string{
		"extends: bow-pod46\nipus: 8":         "did you mean bow-pod16?",
		"extends: bow-pod16\nipu: 8":          "ipu",
		"extends: bow-pod16\nipus: 0":         "ipus is 0, want a positive number",
		"ipus: 4":                             "want a positive number",
		"extends: bow-pod16\nlinks: [1, 2]\n": "links",
	} {
		if _, err := Systems.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error with %q", text, err, want)
		}
	}
	if s, err := Systems.Parse("extends: bow-pod16\nname: mine\nipus: 32"); err != nil || s.IPUs != 32 || s.Chip.ClockHz != 1.85e9 {
		t.Errorf("a system that extends another: %+v, %v", s, err)
	}
}

// TestFamilies: ipu-pod and bow-pod are the smallest that has the IPUs, or the largest that there is.
func TestFamilies(t *testing.T) {
	p := large(t)
	plan := parsed(t, p)
	for replicas, want := range map[int]string{
		1: "pod4", 2: "pod16", 4: "pod16", 5: "pod64", 17: "pod128", 64: "pod256", 128: "pod256",
	} {
		p.Replicas = replicas
		for _, family := range []string{"ipu", "bow"} {
			found, err := Find(backend.Machine{System: family + "-pod"}, "bow-pod16", p, plan)
			if err != nil || found.Name != family+"-"+want {
				t.Errorf("%d replicas of 4 IPUs: %+v, %v, want %s-%s", replicas, found, err, family, want)
			}
		}
	}
	_, err := Find(backend.Machine{System: "box-pod"}, "", p, plan)
	if err == nil || !strings.Contains(err.Error(), "no system is named") {
		t.Errorf("box-pod: %v", err)
	}
	if found, err := Find(backend.Machine{}, "ipu-pod64", p, plan); err != nil || found.Name != "ipu-pod64" {
		t.Errorf("the option: %+v, %v", found, err)
	}
}

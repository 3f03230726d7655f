package arena

import (
	"math"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"harness.invalid/core/tensor"
	"pgregory.net/rapid"
)

func layoutOf(t testing.TB, n int) *tensor.Layout {
	t.Helper()
	l, err := tensor.NewLayout(tensor.Tensor{Name: "w", Shape: tensor.Shape{n}})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func shared(t testing.TB) *Arena {
	t.Helper()
	a, err := New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	if a.File() == nil {
		t.Skip("memory is not shared between processes on " + runtime.GOOS)
	}
	return a
}

// attach opens an arena again, as a plugin does from an inherited file.
func attach(t testing.TB, a *Arena) *Arena {
	t.Helper()
	f, err := duplicate(a.File())
	if err != nil {
		t.Fatal(err)
	}
	b, err := Attach(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// TestTwoProcesses lets a child process, started like a plugin, add 1 to the values in the arena.
func TestTwoProcesses(t *testing.T) {
	if os.Getenv("ARENA_CHILD") != "" {
		a, err := Attach(os.NewFile(3, "arena"))
		if err != nil {
			t.Fatal(err)
		}
		r, err := a.Map(layoutOf(t, 100), []int64{Granularity, 0})
		if err != nil {
			t.Fatal(err)
		}
		for i := range r.Params() {
			r.Params()[i]++
			r.Grads()[i] += 2
		}
		return
	}
	a := shared(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestTwoProcesses$")
	cmd.Env = append(os.Environ(), "ARENA_CHILD=1")
	cmd.ExtraFiles = []*os.File{a.File()}
	r, err := a.Allocate(layoutOf(t, 100), 2)
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.Params() {
		r.Params()[i] = float32(i)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("child: %v\n%s", err, out)
	}
	for i := range r.Params() {
		if r.Params()[i] != float32(i)+2 || r.Grads()[i] != 1 {
			t.Fatalf("element %d is %g and %g, want %g and 1", i, r.Params()[i], r.Grads()[i], float32(i)+2)
		}
	}
}

// TestAllocate: live regions are apart and zeroed, whatever was allocated and closed before.
func TestAllocate(t *testing.T) {
	a := shared(t)
	rapid.Check(t, func(t *rapid.T) {
		var live []*Region
		mark := float32(0)
		marks := map[*Region]float32{}
		defer func() {
			for _, r := range live {
				if err := r.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}()
		for range rapid.IntRange(1, 12).Draw(t, "operations") {
			if len(live) > 0 && rapid.Bool().Draw(t, "close") {
				i := rapid.IntRange(0, len(live)-1).Draw(t, "which")
				if err := live[i].Close(); err != nil {
					t.Fatal(err)
				}
				live = append(live[:i], live[i+1:]...)
				continue
			}
			l, err := tensor.NewLayout(tensor.Tensor{Name: "w", Shape: tensor.Shape{rapid.IntRange(1, 50_000).Draw(t, "elements")}})
			if err != nil {
				t.Fatal(err)
			}
			r, err := a.Allocate(l, rapid.IntRange(1, 4).Draw(t, "sections"))
			if err != nil {
				t.Fatal(err)
			}
			mark++
			for i := range r.Sections() {
				s := r.Section(i)
				if offset, ok := a.Locate(s); !ok || offset != r.Offsets()[i] || offset%Granularity != 0 {
					t.Fatalf("Locate = %d, %v, want %d", offset, ok, r.Offsets()[i])
				}
				for j, v := range s {
					if v != 0 {
						t.Fatalf("new section %d has %g at %d", i, v, j)
					}
					s[j] = mark
				}
			}
			live = append(live, r)
			marks[r] = mark
		}
		for _, r := range live {
			for i := range r.Sections() {
				for j, v := range r.Section(i) {
					if v != marks[r] {
						t.Fatalf("section %d has %g at %d, want %g: regions overlap", i, v, j, marks[r])
					}
				}
			}
		}
	})
}

func TestMapRefuses(t *testing.T) {
	a := shared(t)
	if _, err := a.Allocate(layoutOf(t, 1000), 3); err != nil {
		t.Fatal(err)
	}
	b := attach(t, a)
	l := layoutOf(t, 1000)
	if _, err := b.Map(l, []int64{0, Granularity, 2 * Granularity}); err != nil {
		t.Errorf("Map of what was allocated: %v", err)
	}
	for _, test := range []struct {
		layout  *tensor.Layout
		offsets []int64
		want    string
	}{
		{l, []int64{3 * Granularity}, "within the arena"},
		{l, []int64{-Granularity}, "within the arena"},
		{l, []int64{64}, "multiple of"},
		{l, []int64{math.MaxInt64 / Granularity * Granularity}, "within the arena"},
		{l, []int64{0, 0}, "overlap"},
		{l, nil, "at least one"},
		{layoutOf(t, 20_000), []int64{0, Granularity}, "overlap"},
		{layoutOf(t, 1<<30), []int64{0}, "within the arena"},
		{&tensor.Layout{}, []int64{0}, "at least one"},
	} {
		if _, err := b.Map(test.layout, test.offsets); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("Map(%d elements, %v) = %v, want an error with %q", test.layout.Len(), test.offsets, err, test.want)
		}
	}
	if _, err := b.Allocate(l, 1); err == nil {
		t.Error("a process that attached could allocate")
	}
	if _, err := a.Map(l, []int64{0}); err == nil {
		t.Error("the creator could map by offsets")
	}
}

func TestAllocateRefuses(t *testing.T) {
	a := shared(t)
	if _, err := a.Allocate(layoutOf(t, 1), 0); err == nil {
		t.Error("Allocate of no section gave no error")
	}
	if _, err := a.Allocate(&tensor.Layout{}, 1); err == nil {
		t.Error("Allocate of an empty layout gave no error")
	}
	// Three times 50 TiB exceed the limit of an arena, and once may exceed what the system has.
	var err error
	for i := 0; i < 3 && err == nil; i++ {
		_, err = a.Allocate(layoutOf(t, tensor.MaxLen/2), 99)
	}
	if err == nil {
		t.Error("Allocate of 150 TiB gave no error")
	}
	if _, err := a.Allocate(layoutOf(t, 1), 1); err != nil {
		t.Errorf("Allocate after a failure: %v", err)
	}
	if _, ok := a.Locate(make([]float32, 16)); ok {
		t.Error("Locate found memory of the heap")
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Allocate(layoutOf(t, 1), 1); err == nil {
		t.Error("Allocate from a closed arena gave no error")
	}
}

func TestNewRegion(t *testing.T) {
	r, err := NewRegion(layoutOf(t, 33), 4)
	if err != nil {
		t.Fatal(err)
	}
	if r.Sections() != 4 || len(r.Params()) != 48 || len(r.Grads()) != 48 || len(r.Slots()) != 2 || r.Offsets() != nil {
		t.Errorf("sections %d of %d elements, %d slots", r.Sections(), len(r.Params()), len(r.Slots()))
	}
	for i := range r.Sections() {
		if p := uintptr(unsafe.Pointer(&r.Section(i)[0])); p%(4*tensor.Align) != 0 {
			t.Errorf("section %d begins at %#x, want a multiple of 64", i, p)
		}
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

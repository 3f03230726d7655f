package mt19937_test

import (
	"encoding/json"
	"os"
	"slices"
	"strconv"
	"testing"

	"harness.invalid/core/dataset/mt19937"
	"pgregory.net/rapid"
)

// TestPython compares with the answers that testdata/python.py got from CPython.
func TestPython(t *testing.T) {
	data, err := os.ReadFile("testdata/python.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Seed    int64
		Uint32  []uint32
		Random  []float64
		Bits    [][2]json.RawMessage
		Below   [][2]int
		Shuffle []int
		Last    float64
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) < 10 {
		t.Fatalf("%d cases, want at least 10", len(cases))
	}
	for _, c := range cases {
		r := mt19937.New(c.Seed)
		for i, want := range c.Uint32 {
			if got := r.Uint32(); got != want {
				t.Fatalf("seed %d: word %d is %d, want %d", c.Seed, i, got, want)
			}
		}
		for i, want := range c.Random {
			if got := r.Float64(); got != want {
				t.Errorf("seed %d: random %d is %v, want %v", c.Seed, i, got, want)
			}
		}
		for _, b := range c.Bits {
			k, err := strconv.Atoi(string(b[0]))
			if err != nil {
				t.Fatal(err)
			}
			if got := strconv.Quote(strconv.FormatUint(r.Bits(k), 10)); got != string(b[1]) {
				t.Errorf("seed %d: getrandbits(%d) is %s, want %s", c.Seed, k, got, b[1])
			}
		}
		for _, b := range c.Below {
			if got := r.IntN(b[0]); got != b[1] {
				t.Errorf("seed %d: randrange(%d) is %d, want %d", c.Seed, b[0], got, b[1])
			}
		}
		list := make([]int, 20)
		for i := range list {
			list[i] = i
		}
		r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		if !slices.Equal(list, c.Shuffle) {
			t.Errorf("seed %d: shuffle gives %v, want %v", c.Seed, list, c.Shuffle)
		}
		for range 2000 {
			r.Float64()
		}
		if got := r.Float64(); got != c.Last {
			t.Errorf("seed %d: after 2000 numbers comes %v, want %v", c.Seed, got, c.Last)
		}
	}
}

// TestBounds: whatever the seed, choices are within their bounds and shuffles lose nothing.
func TestBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := mt19937.New(rapid.Int64().Draw(t, "seed"))
		n := rapid.IntRange(1, 1<<60).Draw(t, "n")
		if v := r.IntN(n); v < 0 || v >= n {
			t.Fatalf("IntN(%d) = %d", n, v)
		}
		k := rapid.IntRange(0, 63).Draw(t, "k")
		if v := r.Bits(k); v>>k != 0 {
			t.Fatalf("Bits(%d) = %#x", k, v)
		}
		if v := r.Float64(); v < 0 || v >= 1 {
			t.Fatalf("Float64() = %v", v)
		}
		list := make([]int, n%100)
		for i := range list {
			list[i] = i
		}
		r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		slices.Sort(list)
		for i, v := range list {
			if i != v {
				t.Fatalf("shuffle lost %d: %v", i, list)
			}
		}
	})
}

func BenchmarkFloat64(b *testing.B) {
	r := mt19937.New(1)
	for b.Loop() {
		r.Float64()
	}
}

package spelling

import "testing"

func TestNearest(t *testing.T) {
	known := []string{"learning_rate", "warmup_steps", "steps", "adamw", "lamb"}
	for word, want := range map[string]string{
		"learing_rate": "learning_rate", "warmup": "", "warmup_step": "warmup_steps", "adam": "adamw", "lmab": "lamb", "stpes": "steps",
		"": "", "zebra": "", "adamw": "adamw",
	} {
		if got := Nearest(word, known); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", word, got, want)
		}
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0 runs", 1: "1 run", 2: "2 runs"} {
		if got := Count(n, "run"); got != want {
			t.Errorf("Count(%d) = %q, want %q", n, got, want)
		}
	}
}

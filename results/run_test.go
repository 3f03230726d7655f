package results

import (
	"regexp"
	"testing"
)

func TestFileName(t *testing.T) {
	for _, c := range []struct{ backend, optimizer, want string }{
		{"ipu", "adamw", `^ipu-adamw$`},
		{"ipu:fp16.16", "adamw+lamb", `^ipu-fp16.16-adamw\+lamb$`},
		{"ipu:fp16.16?loss_scale=1", "adamw", `^ipu-fp16\.16-loss-scale-1-[0-9a-f]{8}-adamw$`},
		{"ipu", "adamw?weight_decay=0", `^ipu-adamw-weight-decay-0-[0-9a-f]{8}$`},
	} {
		if got := (Arm{c.backend, c.optimizer}).FileName(); !regexp.MustCompile(c.want).MatchString(got) {
			t.Errorf("%s/%s: %s, want %s", c.backend, c.optimizer, got, c.want)
		}
	}
	long := "x?a=../%:" + string(make([]byte, 500))
	seen := map[string]string{}
	for _, spec := range []string{"x?a=b_c", "x?a=b-c", "x?a=b/c", "x?a=B", "x?a=C", "x?a=é", long + "1", long + "2"} {
		name := Arm{spec, "adamw"}.FileName()
		if !regexp.MustCompile(`^[a-z0-9.-]{1,100}$`).MatchString(name) {
			t.Errorf("%q: %q is no safe name", spec, name)
		}
		if other, ok := seen[name]; ok {
			t.Errorf("%q and %q: both %s", spec, other, name)
		}
		seen[name] = spec
	}
}

package kernels

import (
	"runtime"
	"strings"
	"testing"
)

// TestPath: the path names architecture and level, and the processor's maker where its own instructions decide bits.
func TestPath(t *testing.T) {
	onEachLevel(t, func(t *testing.T) {
		parts := strings.Split(Path(), "/")
		if parts[0] != runtime.GOARCH || parts[1] != Level() {
			t.Errorf("path is %s, want it to begin with %s/%s", Path(), runtime.GOARCH, Level())
		}
		if strings.HasPrefix(Level(), "avx512") || Level() == "amx" {
			if len(parts) != 3 || len(parts[2]) != 12 { // CPUID gives twelve letters
				t.Errorf("path is %s, want the maker at its end", Path())
			}
		} else if len(parts) != 2 {
			t.Errorf("path is %s, want two parts", Path())
		}
	})
}

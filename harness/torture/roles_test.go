//go:build unix

package torture

import (
	"fmt"
	"os"

	"harness.invalid/core/plugin"
	gpuref "harness.invalid/plugins/gpu-ref"
	"harness.invalid/plugins/optimizers/adamw"
)

// playArgument is the first argument of a test binary that plays a role, the second, rather than test.
const playArgument = "play"

// role is what the test binary plays, nil if it tests.
func role() func() {
	if len(os.Args) < 3 || os.Args[1] != playArgument {
		return nil
	}
	switch name := os.Args[2]; name {
	case "gpu-ref":
		return func() { plugin.ServeBackend(gpuref.New()) }
	case "adamw":
		return func() { plugin.ServeOptimizer(adamw.New()) }
	case "host":
		return playHost
	default:
		if h, ok := hostiles[name]; ok {
			return h.play
		}
		return func() {
			fmt.Fprintf(os.Stderr, "no role is named %q\n", name)
			os.Exit(2)
		}
	}
}

//go:build unix

package torture

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"harness.invalid/core/fault"
	"harness.invalid/core/plugin"
)

// TestHostiles: with a plugin that does what no plugin may, the host ends within a bound, with an error that names the
// plugin, or with the right bits. No process is left. The run that it was let into goes on with honest plugins and ends
// with the right bits, unless the plugin lied in steps that were believed; runs that were over are untouched.
func TestHostiles(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("looks for processes in /proc")
	}
	e := whole(t)
	s := newSuite(t, "hostile plugins", 1)
	names := slices.Sorted(maps.Keys(hostiles))
	if len(names) < 64 {
		t.Errorf("%d hostile plugins, want 64", len(names))
	}
	if *long == 0 { // those that take no time
		names = []string{"start-greets", "backend-dies-step", "optimizer-escapes-step", "lies-nan-gradient"}
	}
	before, err := read(e.dir)
	if err != nil {
		t.Fatal(err)
	}
	begun := filepath.Join(scratch, "begun")
	if _, err := e.disturbed(begun, newDevices(), 0, &saboteur{at: 120, way: killed}); err == nil {
		t.Fatal("a run that was to be killed is over")
	}
	defer fault.Intercept(new(saboteur).intercept)()
	for _, name := range names {
		start := time.Now()
		wrong := e.endure(name, begun)
		if took := time.Since(start); wrong == nil && took > time.Minute {
			wrong = fmt.Errorf("it took %v, want less than a minute", took)
		}
		s.trial(name, wrong, name)
	}
	after, err := read(e.dir)
	if err != nil {
		t.Fatal(err)
	}
	if d := before.differs(after); d != "" {
		t.Errorf("a run that was over is another one now: %s", d)
	}
}

// recipeNames are what the recipe calls the plugins.
var recipeNames = map[plugin.Kind]string{plugin.Backend: "gpu-ref", plugin.Optimizer: "adamw"}

// endure lets a hostile plugin into a copy of a run that was begun.
func (e *trained) endure(name, begun string) error {
	h := hostiles[name]
	dir := filepath.Join(scratch, "hostile-"+name)
	if err := copyFolder(begun, dir); err != nil {
		return err
	}
	marker := fmt.Sprint(name, "-", os.Getpid())
	f, err := newFleet(marker, h.timeouts)
	if err != nil {
		return err
	}
	f.roles[h.kind] = name
	j := e.job(dir, f)
	j.Restarts = 1
	o, err := e.run(j)
	_ = f.close() // a plugin may say what it likes at its end
	if left := gone(marker); left != nil && !strings.Contains(name, "escapee") {
		return left
	}
	endEscapees(marker)
	if err == nil {
		if d := e.whole.differs(o); h.want != "" || d != "" {
			return fmt.Errorf("the run came to its end, want an error with %q; it differs in %.300s", h.want, d)
		}
		return nil
	}
	// An error names the plugin as the recipe does, or by its own name.
	named := strings.Contains(err.Error(), name) || strings.Contains(err.Error(), string(h.kind)+" "+recipeNames[h.kind])
	if text := err.Error(); !named && !strings.Contains(text, "the optimizer left it") || !strings.Contains(text, h.want) {
		return fmt.Errorf("the error is %.500q, want %q and the plugin's name", text, h.want)
	}
	if len(err.Error()) > 1<<20 {
		return fmt.Errorf("an error of %d bytes: %.100q", len(err.Error()), err.Error())
	}
	if h.lies {
		return nil
	}
	return e.recovers(dir)
}

func copyFolder(from, to string) error {
	return errors.Join(os.RemoveAll(to), filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		into := filepath.Join(to, rel)
		if d.IsDir() {
			return os.MkdirAll(into, 0o777)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(into, text, 0o666)
	}))
}

// endEscapees ends processes that left the group of their plugin, which nobody can find but by their environment.
func endEscapees(marker string) {
	for pid := range marked(marker) {
		if p, err := os.FindProcess(pid); err == nil {
			_ = p.Kill()
		}
	}
}

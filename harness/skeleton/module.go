package skeleton

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

const modulePath = "harness.invalid"

// findModule returns the checkout of harness that a plugin in Go is built with: the given one, that of this program's
// source, or that around the current folder.
func findModule(given string) (string, error) {
	if given != "" {
		dir, err := filepath.Abs(given)
		if err != nil {
			return "", err
		}
		if !isModule(dir) {
			return "", fmt.Errorf("--module-dir is %s, and there is no go.mod of module %s in it", given, modulePath)
		}
		return dir, nil
	}
	_, source, _, _ := runtime.Caller(0) // not an absolute path in a program built with -trimpath
	folders := []string{filepath.Join(filepath.Dir(source), "..", "..")}
	if dir, err := os.Getwd(); err == nil {
		for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
			folders = append(folders, dir)
		}
	}
	for _, dir := range folders {
		if filepath.IsAbs(dir) && isModule(dir) {
			return dir, nil
		}
	}
	return "", errors.New("a plugin in go is built with a checkout of harness, and none was found: give --module-dir")
}

func isModule(dir string) bool {
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	return err == nil && bytes.HasPrefix(text, []byte("module "+modulePath+"\n"))
}

// writeModule writes go.mod and go.sum with the versions of the checkout, so that the plugin builds with what built
// harness. `go mod tidy` removes what it does not need.
func (p *Plugin) writeModule() error {
	mod, err := os.ReadFile(filepath.Join(p.Module, "go.mod"))
	if err != nil {
		return err
	}
	sum, err := os.ReadFile(filepath.Join(p.Module, "go.sum"))
	if err != nil {
		return err
	}
	head := "module " + p.Name + ".invalid\n"
	tail := fmt.Sprintf("\nrequire %s v0.0.0\n\n// harness has no published home yet: this line names a checkout.\nreplace %[1]s => %s\n",
		modulePath, modString(p.Module))
	text := head + strings.TrimPrefix(string(mod), "module "+modulePath+"\n") + tail
	return errors.Join(p.writeFile("go.mod", []byte(text)), p.writeFile("go.sum", sum))
}

// modString is a path as go.mod has it: quoted where it would end early otherwise.
func modString(path string) string {
	if strings.ContainsAny(path, " \t\"'`(),[]{}") || strings.Contains(path, "//") {
		return fmt.Sprintf("%q", path)
	}
	return path
}

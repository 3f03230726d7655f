// Package skeleton writes new plugins: small ones that work, with a test, in Go or Python, in which the
// author replaces the rule or the device.
package skeleton

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"harness.invalid/core/durable"
	"harness.invalid/core/plugin"
	"harness.invalid/core/plugin/host"
	"harness.invalid/core/spelling"
	"harness.invalid/harness/catalog"
	"harness.invalid/harness/hint"
)

// templates has a folder for each kind and language. PLUGIN_NAME stands for the plugin's name. The files end in .txt,
// or they would be compiled here.
//
//go:embed templates
var templates embed.FS

// templateName is what stands for the plugin's name in the templates.
const templateName = "PLUGIN_NAME"

// Plugin is a plugin to be written.
type Plugin struct {
	Kind     plugin.Kind
	Name     string
	Language string // go or python
	Folder   string // to write, which must not exist; "": harness-KIND-NAME
	Module   string // checkout of harness that a plugin in Go is built with; "": that of this program, or around the current folder
}

// Write writes the plugin, in full or not at all, and fills in the fields that were empty.
func (p *Plugin) Write() error {
	if err := p.check(); err != nil {
		return err
	}
	if p.Language == "go" {
		var err error
		if p.Module, err = findModule(p.Module); err != nil {
			return err
		}
	} else if p.Module != "" {
		return fmt.Errorf("--module-dir is for plugins in go, and --language is %s", p.Language)
	}
	return p.write()
}

// executable is the name under which the plugin is found.
func (p *Plugin) executable() string { return "harness-" + string(p.Kind) + "-" + p.Name }

// check reports why there could be no such plugin, and fills in the folder.
func (p *Plugin) check() error {
	kinds, languages := []string{string(plugin.Optimizer), string(plugin.Backend)}, []string{"go", "python"}
	if p.Kind != plugin.Optimizer && p.Kind != plugin.Backend {
		return fmt.Errorf("kind is %q%s (known: optimizer, backend)", p.Kind, spelling.Hint(string(p.Kind), kinds))
	}
	if p.Language != "go" && p.Language != "python" {
		return fmt.Errorf("--language is %q%s (known: go, python)", p.Language, spelling.Hint(p.Language, languages))
	}
	if !host.NamePattern.MatchString(p.Name) {
		return fmt.Errorf("name is %q, want a-z, 0-9 and - only", p.Name)
	}
	if slices.Contains(catalog.Names(p.Kind), p.Name) {
		switch e, err := catalog.Find(p.Kind, p.Name); {
		case err != nil:
			return fmt.Errorf("the name %s is taken, and what has it can't be used: %w", p.Name, err)
		case e.BuiltIn:
			return fmt.Errorf("the name %s is taken: a built-in %s has it, which goes before all others; choose another", p.Name, p.Kind)
		default:
			return fmt.Errorf("the name %s is taken by %s: choose another, or remove that file", p.Name, e.Source())
		}
	}
	if p.Folder == "" {
		p.Folder = p.executable()
	}
	return nil
}

// write makes the folder with all files, or leaves nothing.
func (p *Plugin) write() (err error) {
	if err := os.MkdirAll(filepath.Dir(p.Folder), 0o777); err != nil {
		return err
	}
	if err := os.Mkdir(p.Folder, 0o777); errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s is there already: give another folder with --out", p.Folder)
	} else if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(p.Folder))
		}
	}()
	from := "templates/" + string(p.Kind) + "-" + p.Language
	entries, err := templates.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		text, err := templates.ReadFile(path.Join(from, e.Name()))
		if err != nil {
			return err
		}
		name := strings.TrimSuffix(e.Name(), ".txt")
		switch name {
		case "plugin":
			name = p.executable()
		case "test_plugin":
			name += ".py"
		}
		if err := p.writeFile(name, bytes.ReplaceAll(text, []byte(templateName), []byte(p.Name))); err != nil {
			return err
		}
	}
	if p.Language == "python" {
		return os.Chmod(filepath.Join(p.Folder, p.executable()), 0o777&^0o022)
	}
	return p.writeModule()
}

func (p *Plugin) writeFile(name string, text []byte) error {
	return durable.WriteFile(filepath.Join(p.Folder, name), func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// Commands are the command lines that build the plugin, verify it and use it, for a shell.
func (p *Plugin) Commands() []string {
	folder := hint.Quote(p.Folder)
	build := fmt.Sprintf("go build -C %s -o %s .", folder, p.executable())
	if p.Language == "python" {
		build = "chmod +x " + hint.Quote(filepath.Join(p.Folder, p.executable())) // all there is to build
	}
	use := "--backends gpu-ref --optimizers adamw," + p.Name
	if p.Kind == plugin.Backend {
		use = "--backends gpu-ref," + p.Name
	}
	return []string{
		build,
		fmt.Sprintf("HARNESS_PLUGIN_PATH=%s harness plugin verify %s %s", folder, p.Kind, p.Name),
		fmt.Sprintf("HARNESS_PLUGIN_PATH=%s harness compare %s", folder, use),
	}
}

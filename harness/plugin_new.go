package main

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"harness.invalid/core/durable"
	"harness.invalid/core/plugin"
	"harness.invalid/core/plugin/host"
	"harness.invalid/core/spelling"
	"harness.invalid/harness/catalog"
	"harness.invalid/harness/hint"
)

// templates has a folder for each kind and language. PLUGIN_NAME stands for the plugin's name, and .txt is behind the names of the files, which would
// be compiled here otherwise.
//
//go:embed templates
var templates embed.FS

// templateName is what stands for the plugin's name in the templates.
const templateName = "PLUGIN_NAME"

func newPluginNew() *cobra.Command {
	var language, out, moduleDir string
	cmd := &cobra.Command{
		Use:   "new optimizer|backend NAME",
		Short: "Write a small plugin that works, with a test",
		Long: `New writes a plugin of less than 60 lines and its test into a folder, and prints the commands that build it, hold it against its contract, and use it.
It works as it is: put your own rule or device in place of what it does.

A plugin in Go is a module of its own whose go.mod names a checkout of harness: --module-dir, or the one that this program was built from, or the one
around the current folder. A plugin in Python needs nothing that harness does not bring but its modules; a backend in Python needs PyTorch, too.`,
		Example: `  harness plugin new optimizer my-rule
  harness plugin new optimizer my-rule --language python --out plugins/my-rule
  harness plugin new backend my-device --language go --module-dir ~/src/harness`,
		Args: cobra.ExactArgs(2),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return []string{string(plugin.Optimizer), string(plugin.Backend)}, cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			s := skeleton{kind: plugin.Kind(args[0]), name: args[1], language: language, folder: out}
			if err := s.check(); err != nil {
				return fmt.Errorf("plugin new: %w", err)
			}
			if s.language == "go" {
				var err error
				if s.module, err = findModule(moduleDir); err != nil {
					return fmt.Errorf("plugin new: %w", err)
				}
			} else if moduleDir != "" {
				return fmt.Errorf("plugin new: --module-dir is for plugins in go, and --language is %s", s.language)
			}
			if err := s.write(); err != nil {
				return fmt.Errorf("plugin new: %w", err)
			}
			return s.printCommands(cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&language, "language", "go", "go or python")
	cmd.Flags().StringVar(&out, "out", "", "folder to write, which must not be there (default: harness-KIND-NAME)")
	cmd.Flags().StringVar(&moduleDir, "module-dir", "", "checkout of harness that a plugin in go is built with")
	return cmd
}

// skeleton is a plugin to be written.
type skeleton struct {
	kind     plugin.Kind
	name     string
	language string
	folder   string
	module   string // checkout of harness, of a plugin in Go
}

// executable is the name under which the plugin is found.
func (s *skeleton) executable() string { return "harness-" + string(s.kind) + "-" + s.name }

// check refuses what could not become a plugin, and fills in the folder.
func (s *skeleton) check() error {
	kinds, languages := []string{string(plugin.Optimizer), string(plugin.Backend)}, []string{"go", "python"}
	if s.kind != plugin.Optimizer && s.kind != plugin.Backend {
		return fmt.Errorf("kind is %q%s (known: optimizer, backend)", s.kind, spelling.Hint(string(s.kind), kinds))
	}
	if s.language != "go" && s.language != "python" {
		return fmt.Errorf("--language is %q%s (known: go, python)", s.language, spelling.Hint(s.language, languages))
	}
	if !host.NamePattern.MatchString(s.name) {
		return fmt.Errorf("name is %q, want a-z, 0-9 and - only", s.name)
	}
	if slices.Contains(catalog.Names(s.kind), s.name) {
		switch e, err := catalog.Find(s.kind, s.name); {
		case err != nil:
			return fmt.Errorf("the name %s is taken, and what has it can't be used: %w", s.name, err)
		case e.BuiltIn:
			return fmt.Errorf("the name %s is taken: a built-in %s has it, which goes before all others; choose another", s.name, s.kind)
		default:
			return fmt.Errorf("the name %s is taken by %s: choose another, or remove that file", s.name, e.Source())
		}
	}
	if s.folder == "" {
		s.folder = s.executable()
	}
	return nil
}

// findModule is the checkout of harness with which a plugin in Go is built: the given one, that of this program's source, or that around the current folder.
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
	_, source, _, _ := runtime.Caller(0) // no absolute path in a program that was built with -trimpath
	folders := []string{filepath.Dir(filepath.Dir(source))}
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

const modulePath = "harness.invalid"

func isModule(dir string) bool {
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	return err == nil && bytes.HasPrefix(text, []byte("module "+modulePath+"\n"))
}

// write makes the folder with all files, or leaves none.
func (s *skeleton) write() (err error) {
	if err := os.MkdirAll(filepath.Dir(s.folder), 0o777); err != nil {
		return err
	}
	if err := os.Mkdir(s.folder, 0o777); errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s is there already: give another folder with --out", s.folder)
	} else if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(s.folder))
		}
	}()
	from := "templates/" + string(s.kind) + "-" + s.language
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
			name = s.executable()
		case "test_plugin":
			name += ".py"
		}
		if err := s.writeFile(name, bytes.ReplaceAll(text, []byte(templateName), []byte(s.name))); err != nil {
			return err
		}
	}
	if s.language == "python" {
		return os.Chmod(filepath.Join(s.folder, s.executable()), 0o777&^0o022)
	}
	return s.writeModule()
}

// writeModule writes go.mod and go.sum. They have the versions of the checkout, so that the plugin builds with what built harness; `go mod tidy` leaves what it needs.
func (s *skeleton) writeModule() error {
	mod, err := os.ReadFile(filepath.Join(s.module, "go.mod"))
	if err != nil {
		return err
	}
	sum, err := os.ReadFile(filepath.Join(s.module, "go.sum"))
	if err != nil {
		return err
	}
	head := "module " + s.name + ".invalid\n"
	tail := fmt.Sprintf("\nrequire %s v0.0.0\n\n// harness has no published home yet: this line names a checkout of it.\nreplace %[1]s => %s\n", modulePath, modString(s.module))
	text := head + strings.TrimPrefix(string(mod), "module "+modulePath+"\n") + tail
	return errors.Join(s.writeFile("go.mod", []byte(text)), s.writeFile("go.sum", sum))
}

// modString is a path as go.mod has it: quoted where it would end early.
func modString(path string) string {
	if strings.ContainsAny(path, " \t\"'`(),[]{}") || strings.Contains(path, "//") {
		return fmt.Sprintf("%q", path)
	}
	return path
}

func (s *skeleton) writeFile(name string, text []byte) error {
	return durable.WriteFile(filepath.Join(s.folder, name), func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// printCommands prints what to do next, for a shell.
func (s *skeleton) printCommands(out io.Writer) error {
	folder := shellString(s.folder)
	build := fmt.Sprintf("go build -C %s -o %s .", folder, s.executable())
	if s.language == "python" {
		build = "chmod +x " + shellString(filepath.Join(s.folder, s.executable())) // all there is to build
	}
	use := "--backends gpu-ref --optimizers adamw," + s.name
	if s.kind == plugin.Backend {
		use = "--backends gpu-ref," + s.name
	}
	_, err := fmt.Fprintf(out, "%s\nHARNESS_PLUGIN_PATH=%s harness plugin verify %s %s\nHARNESS_PLUGIN_PATH=%[2]s harness compare %[5]s\n", build, folder, s.kind, s.name, use)
	return err
}

// shellString is a word as a POSIX shell takes it.
func shellString(word string) string { return hint.Quote(word) }

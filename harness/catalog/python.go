package catalog

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"sync"

	"harness.invalid/core/plugin"
	"harness.invalid/core/plugin/python"
	"harness.invalid/plugins/torch"
)

// familyPrefix begins the names of the optimizers that are classes of torch.optim.
const familyPrefix = "torch."

func torchBackend() Entry {
	return Entry{Kind: plugin.Backend, Name: "torch", Args: []string{"backend"}, BuiltIn: true, interpreted: true}
}

// torchOptimizers stands for all of them: each would take a second to start.
func torchOptimizers() Entry {
	e := Entry{Kind: plugin.Optimizer, Name: familyPrefix + "NAME", BuiltIn: true, interpreted: true}
	for _, class := range torch.Optimizers {
		e.Family = append(e.Family, familyPrefix+class)
	}
	return e
}

// torchModules are what PyTorch's plugin imports.
var torchModules = append([]python.Module{{Name: "torch", Debian: "python3-torch", PyPI: "torch"}}, python.Modules...)

// torchProgram is the interpreter that has PyTorch and the file of the plugin, looked for once.
var torchProgram struct {
	once                sync.Once
	interpreter, script string
	err                 error
}

// prepare finds what the entry needs to be started.
func (e *Entry) prepare(ctx context.Context) error {
	if !e.interpreted {
		if e.Note != "" || e.BuiltIn || !isPython(e.Path) {
			return nil
		}
		return e.lendSDK()
	}
	p := &torchProgram
	p.once.Do(func() {
		if p.interpreter, p.err = python.Interpreter(ctx, torchModules); p.err != nil {
			return
		}
		var archive []byte
		if archive, p.err = python.Archive(python.SDK(), torch.Program); p.err != nil {
			return
		}
		p.script, p.err = python.Install("harness-torch", archive)
	})
	if p.err != nil {
		return p.err
	}
	e.Path, e.Script, e.Args = p.interpreter, p.script, append([]string{p.script}, e.Args...)
	return nil
}

// lendSDK lets a plugin of a third party import harness_plugin. What its user put into PYTHONPATH goes first.
func (e *Entry) lendSDK() error {
	archive, err := python.Archive(python.SDK())
	if err != nil {
		return err
	}
	path, err := python.Install("harness_plugin", archive)
	if err != nil {
		return err
	}
	if given := os.Getenv("PYTHONPATH"); given != "" {
		path = given + string(filepath.ListSeparator) + path
	}
	e.Env = append(e.Env, "PYTHONPATH="+path)
	return nil
}

// isPython reports whether an executable is a text whose first line names Python.
func isPython(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	head := make([]byte, 128)
	n, err := io.ReadFull(f, head)
	if err != nil && n == 0 {
		return false
	}
	line, _, _ := bytes.Cut(head[:n], []byte("\n"))
	return bytes.HasPrefix(line, []byte("#!")) && bytes.Contains(line, []byte("python"))
}

package catalog

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"harness.invalid/core/bounded"
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
var torchProgram = sync.OnceValues(func() (Entry, error) {
	interpreter, err := python.Interpreter(context.Background(), torchModules)
	if err != nil {
		return Entry{}, err
	}
	script, err := install("harness-torch", python.SDK(), torch.Program)
	return Entry{Path: interpreter, Script: script}, err
})

// sdk is the file from which plugins in Python import harness_plugin, and harness_torch, for a backend that changes
// a part of PyTorch's.
var sdk = sync.OnceValues(func() (string, error) { return install("harness_plugin", python.SDK(), torch.Program) })

// anyPython is an interpreter that has what harness_plugin imports.
var anyPython = sync.OnceValues(func() (string, error) { return python.Interpreter(context.Background(), python.Modules) })

func install(name string, files ...fs.FS) (string, error) {
	archive, err := python.Archive(files...)
	if err != nil {
		return "", err
	}
	return python.Install(name, archive)
}

// importing is how long modules may take to be imported: PyTorch needs a second of one CPU, and much more from a
// cold disk or on a busy machine.
const importing = 3 * time.Minute

// prepare finds what the entry needs to be started.
func (e *Entry) prepare() error {
	switch {
	case e.interpreted:
		found, err := torchProgram()
		if err != nil {
			return err
		}
		e.Path, e.Script, e.Args, e.Patience = found.Path, found.Script, append([]string{found.Script}, e.Args...), importing
		if os.Getenv("PYTHONPATH") != "" {
			e.Env = append(e.Env, "PYTHONPATH="+python.SearchPath())
		}
		return nil
	case e.BuiltIn || e.Note != "" || e.Address != "":
		return nil
	}
	line := firstLine(e.Path)
	if !strings.HasPrefix(line, "#!") || !strings.Contains(line, "python") {
		return nil
	}
	// A plugin in Python imports harness_plugin, after what its user put into PYTHONPATH. One that leaves open which
	// Python is to run it gets one that has the modules, which python3 on $PATH need not be.
	path, err := sdk()
	if err != nil {
		return err
	}
	e.Env, e.Patience = append(e.Env, "PYTHONPATH="+python.SearchPath(path)), importing
	if strings.Contains(line, "/env ") {
		interpreter, err := anyPython()
		if err != nil {
			return err
		}
		e.Path, e.Script, e.Args = interpreter, e.Path, append([]string{e.Path}, e.Args...)
	}
	return nil
}

// firstLine is the beginning of a file up to the first end of a line, "" where there is none.
func firstLine(path string) string {
	f, err := bounded.Open(path, bounded.TiB)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	head := make([]byte, 256)
	n, _ := io.ReadFull(f, head)
	line, _, ok := bytes.Cut(head[:n], []byte("\n"))
	if !ok {
		return ""
	}
	return string(line)
}

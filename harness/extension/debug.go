package extension

import (
	"slices"

	"harness.invalid/core/plugin/host"
	"harness.invalid/harness/catalog"
	"harness.invalid/harness/processes"
)

// Debug returns how a plugin is started under a debugger: the debugger's command line, followed by the plugin's. An
// empty debugger is none.
func Debug(e catalog.Entry, debugger []string) (host.Spec, error) {
	s, err := processes.Spec(e)
	if err != nil || len(debugger) == 0 {
		return s, err
	}
	program := append([]string{e.Path}, e.Args...)
	s.Path = debugger[0]
	if e.Script != "" {
		program = e.Args // a debugger brings its own interpreter
		if s.Path == "python3" || s.Path == "python" {
			s.Path = e.Path // this one has the modules; the one on $PATH need not
		}
	}
	s.Args = slices.Concat(debugger[1:], program)
	return s, nil
}

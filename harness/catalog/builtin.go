package catalog

import (
	"fmt"
	"slices"

	"harness.invalid/core/backend"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/plugin"
	gpuref "harness.invalid/plugins/gpu-ref"
	"harness.invalid/plugins/ipu"
	"harness.invalid/plugins/optimizers/adafactor"
	"harness.invalid/plugins/optimizers/adamw"
	"harness.invalid/plugins/optimizers/lamb"
	"harness.invalid/plugins/optimizers/lion"
	"harness.invalid/plugins/optimizers/muon"
	"harness.invalid/plugins/optimizers/nadamw"
	"harness.invalid/plugins/optimizers/sam"
	"harness.invalid/plugins/optimizers/schedulefree"
	"harness.invalid/plugins/optimizers/sgd"
	"harness.invalid/plugins/optimizers/shampoo"
)

var backends = []struct {
	name string
	new  func() backend.Backend
}{
	{"gpu-ref", func() backend.Backend { return gpuref.New() }},
	{"ipu", func() backend.Backend { return ipu.New() }},
}

var optimizers = []struct {
	name string
	new  func() optimizer.Optimizer
}{
	{"adafactor", func() optimizer.Optimizer { return adafactor.New() }},
	{"adamw", func() optimizer.Optimizer { return adamw.New() }},
	{"lamb", func() optimizer.Optimizer { return lamb.New() }},
	{"lion", func() optimizer.Optimizer { return lion.New() }},
	{"muon", func() optimizer.Optimizer { return muon.New() }},
	{"nadamw", func() optimizer.Optimizer { return nadamw.New() }},
	{"sam", func() optimizer.Optimizer { return sam.New() }},
	{"schedule-free-adamw", func() optimizer.Optimizer { return schedulefree.New() }},
	{"sgd", func() optimizer.Optimizer { return sgd.New() }},
	{"shampoo", func() optimizer.Optimizer { return shampoo.New() }},
}

// builtIn lists the built-in plugins, backends first. self is this program.
func builtIn(self string) []Entry {
	var list []Entry
	add := func(k plugin.Kind, name string) {
		list = append(list, Entry{Kind: k, Name: name, Path: self, Args: append(slices.Clone(ServeCommand), string(k), name), BuiltIn: true})
	}
	for _, b := range backends {
		add(plugin.Backend, b.name)
	}
	list = append(list, torchBackend())
	for _, o := range optimizers {
		add(plugin.Optimizer, o.name)
	}
	return append(list, torchOptimizers())
}

// ServeCommand is the hidden command line that makes this program serve a built-in plugin: harness plugin serve
// KIND NAME.
var ServeCommand = []string{"plugin", "serve"}

// Asked returns the built-in plugin that a command line, such as os.Args, asks this program to serve. Any program
// that starts built-in plugins is started again for each of them, and must look here first:
//
//	if kind, name, ok := catalog.Asked(os.Args); ok {
//		return catalog.Serve(kind, name)
//	}
func Asked(args []string) (k plugin.Kind, name string, ok bool) {
	n := len(ServeCommand)
	if len(args) != 1+n+2 || !slices.Equal(args[1:1+n], ServeCommand) {
		return "", "", false
	}
	return plugin.Kind(args[1+n]), args[2+n], true
}

// Serve serves a built-in plugin until the host is done with it.
func Serve(k plugin.Kind, name string) error {
	for _, b := range backends {
		if k == plugin.Backend && b.name == name {
			plugin.ServeBackend(b.new())
			return nil
		}
	}
	for _, o := range optimizers {
		if k == plugin.Optimizer && o.name == name {
			plugin.ServeOptimizer(o.new())
			return nil
		}
	}
	return fmt.Errorf("no built-in %s is named %q", k, name)
}

package experiment_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"harness.invalid/harness/experiment"
)

// A comparison needs a recipe, arms and seeds. Each plugin runs in a process of its own, as it does under harness
// compare.
func ExampleRun() {
	dir, err := os.MkdirTemp("", "comparison")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	r, err := experiment.Load(experiment.Source{Recipe: "../testdata/mini.yaml", Set: []string{"phases.*.steps=2"}})
	if err != nil {
		panic(err)
	}
	arms, err := experiment.Arms([]string{"ipu", "gpu-ref:fp16"}, nil)
	if err != nil {
		panic(err)
	}
	o, err := experiment.Run(context.Background(), experiment.Experiment{
		Recipe: r, Arms: arms, FirstSeed: 1, Seeds: 2, Dir: dir,
		Observe: func(e experiment.Event) {
			if run, ok := e.(experiment.RunStarted); ok {
				fmt.Println("train", run.Run)
			}
		},
	})
	if err != nil {
		panic(err)
	}
	c, err := o.Compare()
	if err != nil {
		panic(err)
	}
	p := c.Comparisons[0]
	fmt.Printf("%v against %v: %s over %d seeds\n", p.Arm, p.Baseline, p.Primary, len(p.Seeds))
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		panic(err)
	}
	for _, f := range files {
		fmt.Println(filepath.Base(f))
	}
	// Output:
	// train ipu-adamw-seed1
	// train gpu-ref-fp16-adamw-seed1
	// train gpu-ref-fp16-adamw-seed2
	// train ipu-adamw-seed2
	// gpu-ref:fp16/adamw against ipu/adamw: squad.f1 over 2 seeds
	// comparison.json
	// data
	// gpu-ref-fp16-adamw-seed1
	// gpu-ref-fp16-adamw-seed2
	// ipu-adamw-seed1
	// ipu-adamw-seed2
}

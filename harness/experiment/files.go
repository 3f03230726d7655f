package experiment

import (
	"fmt"
	"strings"

	"harness.invalid/core/dataset/pretraining"
	"harness.invalid/core/dataset/tasks"
	"harness.invalid/core/recipe"
	"harness.invalid/core/spelling"
)

// nameFiles sets the files that belong to one name: text, prepared, vocab, model, TASK.train or TASK.dev.
func nameFiles(f *recipe.Files, name string, paths []string) error {
	one := func(into *string) error {
		if len(paths) > 1 {
			return fmt.Errorf("there is only one %s", name)
		}
		*into = paths[0]
		return nil
	}
	switch name {
	case "text":
		var err error
		f.Text, err = pretraining.Files(paths)
		return err
	case "prepared":
		f.Prepared = paths
		return nil
	case "vocab":
		return one(&f.Vocab)
	case "model":
		return one(&f.Model)
	}
	task, part, _ := strings.Cut(name, ".")
	t, err := tasks.Named(task)
	if err != nil || part != "train" && part != "dev" {
		known := []string{"text", "prepared", "vocab", "model"}
		for _, n := range tasks.Names() {
			known = append(known, n+".train", n+".dev")
		}
		return fmt.Errorf("no data set is named %q%s (known: text, prepared, vocab, model, and TASK.train and TASK.dev for the tasks %s)",
			name, spelling.Hint(name, known), strings.Join(tasks.Names(), ", "))
	}
	files := f.Of(t.Name)
	if part == "train" {
		files.Train = paths
	} else {
		files.Dev = paths
	}
	f.Set(t.Name, files)
	return nil
}

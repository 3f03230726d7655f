package benchmark

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"harness.invalid/core/dataset/tasks"
)

// Files are those of a task in a benchmark's folder.
type Files struct {
	Train, Dev []string
	// Other are the examples of MNLI's other genres, which a model of mnli answers as mnli-mm.
	Other []string
	// Test are the examples that the benchmark's server scores; none: there are none.
	Test []string
}

// sets are the names under which tasks' files are distributed. The first set whose files are all there counts.
// Sources: gluebenchmark.com and CLUEbenchmark/CLUE, as harness data fetch unpacks them; Microsoft's MRPC; the public
// part of CoLA.
var sets = struct{ train, dev, other, test [][]string }{
	train: [][]string{{"train.tsv"}, {"train.json"}, {"msr_paraphrase_train.txt"}, {"in_domain_train.tsv"},
		{"m-train.json", "d-train.json"}, {"c3-m-train.json", "c3-d-train.json"}, {"cmrc2018_train.json"}},
	dev: [][]string{{"dev.tsv"}, {"dev_matched.tsv"}, {"dev.json"}, {"msr_paraphrase_test.txt"},
		{"in_domain_dev.tsv", "out_of_domain_dev.tsv"}, {"m-dev.json", "d-dev.json"}, {"c3-m-dev.json", "c3-d-dev.json"},
		{"cmrc2018_dev.json"}},
	other: [][]string{{"dev_mismatched.tsv"}},
	test:  [][]string{{"test.tsv"}, {"test_matched.tsv"}, {"test.json"}},
}

// Find finds the files of each task in the folders of a benchmark that have the tasks' names, such as SST-2 or
// tnews_public; SQuAD's are in the folder itself. Tasks without files to train and evaluate on are left out.
func Find(list []tasks.Task, dir string) (map[string]Files, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	found := map[string]Files{}
	for _, e := range entries {
		name := strings.ToLower(e.Name())
		for _, suffix := range []string{"_public", "-clean", "v2"} {
			name = strings.TrimSuffix(name, suffix)
		}
		t, err := tasks.Named(name)
		if err != nil || !e.IsDir() || !slices.ContainsFunc(list, func(l tasks.Task) bool { return l.Name == t.Name }) {
			continue
		}
		if _, ok := found[t.Name]; ok {
			return nil, fmt.Errorf("%s has two folders of %s, the second is %s: want one", dir, t.Name, e.Name())
		}
		in := func(sets [][]string) []string { return first(filepath.Join(dir, e.Name()), sets) }
		f := Files{Train: in(sets.train), Dev: in(sets.dev), Test: in(sets.test)}
		if t.Name == "mnli" {
			f.Other = in(sets.other)
		}
		if f.Train != nil && f.Dev != nil {
			found[t.Name] = f
		}
	}
	for task, version := range map[string]string{"squad": "v1.1", "squad2": "v2.0"} {
		f := Files{Train: first(dir, [][]string{{"train-" + version + ".json"}}), Dev: first(dir, [][]string{{"dev-" + version + ".json"}})}
		if slices.ContainsFunc(list, func(l tasks.Task) bool { return l.Name == task }) && f.Train != nil && f.Dev != nil {
			found[task] = f
		}
	}
	return found, nil
}

// first is the first set of files that are all in a folder.
func first(dir string, sets [][]string) []string {
	for _, names := range sets {
		var paths []string
		for _, name := range names {
			path := filepath.Join(dir, name)
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
				paths = append(paths, path)
			}
		}
		if len(paths) == len(names) {
			return paths
		}
	}
	return nil
}

// Package transformers turns command lines of Hugging Face's run_qa.py and run_glue.py, and of their twins in
// optimum-graphcore, into recipes. Every option becomes a field of a recipe or a line that says why not; none is
// dropped silently.
//
// Sources: huggingface/transformers, examples/pytorch/question-answering and text-classification, training_args.py;
// huggingface/optimum-graphcore, training_args.py, ipu_configuration.py.
package transformers

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
)

// Command is a parsed command line.
type Command struct {
	Script    string   // run_qa.py or run_glue.py
	Processes int      // started by a launcher: torchrun --nproc_per_node
	Options   []Option // in their order
}

// Option is an option of the script with everything up to the next option.
type Option struct {
	Name  string // without leading dashes, with underscores: learning_rate
	Value string // empty: none was given
}

// Parse splits a command line into launcher, script and options.
func Parse(words []string) (*Command, error) {
	c := &Command{Processes: 1}
	at := -1
	for i, w := range words {
		if base := path.Base(w); base == "run_qa.py" || base == "run_glue.py" {
			at, c.Script = i, base
			break
		}
	}
	if at < 0 {
		return nil, errors.New("the command line names neither run_qa.py nor run_glue.py")
	}
	for i, w := range words[:at] {
		name, value, given := strings.Cut(strings.TrimLeft(w, "-"), "=")
		if name = strings.ReplaceAll(name, "-", "_"); name != "nproc_per_node" && name != "num_processes" {
			continue
		}
		if !given && i+1 < at {
			value = words[i+1]
		}
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 || n > 4096 {
			return nil, fmt.Errorf("--%s is %q, want a number of processes", name, value)
		}
		c.Processes = n
	}
	for _, w := range words[at+1:] {
		name, isOption := strings.CutPrefix(w, "--")
		if !isOption {
			if len(c.Options) == 0 {
				return nil, fmt.Errorf("%s is followed by %q, want options; a file of options is not read", c.Script, w)
			}
			last := &c.Options[len(c.Options)-1]
			last.Value = strings.TrimSpace(last.Value + " " + w)
			continue
		}
		name, value, _ := strings.Cut(name, "=")
		c.Options = append(c.Options, Option{strings.ReplaceAll(name, "-", "_"), value})
	}
	return c, nil
}

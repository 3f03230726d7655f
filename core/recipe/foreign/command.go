// Package foreign turns command lines of other programs that train BERT into recipes: Hugging Face's examples and
// their twins in optimum-graphcore, google-research/bert, and NVIDIA's PyTorch BERT. Every option becomes a field of a
// recipe or a line that says why not; none is dropped silently.
//
//	text -> Split -> words -> Parse -> launchers, program, options -> Import -> recipe
//
// A program is a row of a table (program.go), with the values that it has by default and the options that it knows.
//
// Sources: huggingface/transformers, examples/pytorch, training_args.py; huggingface/optimum-graphcore,
// examples, training_args.py, ipu_configuration.py; google-research/bert, run_*.py; NVIDIA/DeepLearningExamples,
// PyTorch/LanguageModeling/BERT.
package foreign

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Command is a parsed command line.
type Command struct {
	Script  string   // run_qa.py, say
	Options []Option // in their order

	program *program
	launch  launch
	phase   string // the phase's name, where a script runs several
	carries bool   // the optimizer's moments of the phase before go on
}

// Option is an option of the script with everything up to the next option.
type Option struct {
	Name  string // without leading dashes, with underscores: learning_rate
	Value string // empty: none was given
}

// Parse splits a command line into launchers, script and options. Scripts of NVIDIA's that run a program twice give
// two commands.
func Parse(words []string) ([]*Command, error) {
	at := slices.IndexFunc(words, isScript)
	if at < 0 {
		return parseShell(words)
	}
	c := &Command{Script: path.Base(words[at])}
	for _, w := range words[at+1:] {
		name, isOption := strings.CutPrefix(w, "--")
		if !isOption {
			if strings.TrimSpace(w) == "" {
				continue
			}
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
	var err error
	if c.program, err = c.findProgram(); err != nil {
		return nil, err
	}
	if c.launch, err = parseLaunch(words[:at], c.Script); err != nil {
		return nil, err
	}
	return []*Command{c}, nil
}

// isScript reports whether a word is a program of the table, or one that is known not to be taken.
func isScript(word string) bool {
	if strings.ContainsAny(word, " \t\n=") {
		return false // text that has one in it: CMD="python run_squad.py"
	}
	base := path.Base(word)
	_, left := leftOut[base]
	return left || slices.ContainsFunc(programs, func(p program) bool { return p.script == base })
}

// has reports whether an option is on the command line.
func (c *Command) has(name string) bool {
	return slices.ContainsFunc(c.Options, func(o Option) bool { return o.Name == name })
}

// findProgram returns the program of the script's name that the options belong to.
func (c *Command) findProgram() (*program, error) {
	if why, ok := leftOut[c.Script]; ok {
		return nil, fmt.Errorf("%s %s", c.Script, why)
	}
	for _, t := range foreignOptions {
		if c.has(t.option) && (t.script == "" || t.script == c.Script) {
			return nil, fmt.Errorf("%s --%s is of %s", c.Script, t.option, t.of)
		}
	}
	var tells []string
	for i := range programs {
		p := &programs[i]
		if p.script != c.Script {
			continue
		}
		if len(p.tells) == 0 || slices.ContainsFunc(p.tells, c.has) {
			return p, nil
		}
		tells = append(tells, fmt.Sprintf("--%s (%s)", p.tells[0], p.family.name))
	}
	return nil, fmt.Errorf("several programs are called %s, and no option says which one it is, want one of %s", c.Script,
		strings.Join(tells, ", "))
}

// errNoProgram is the error of a text that runs none of the programs.
func errNoProgram() error {
	var names []string
	for _, p := range programs {
		if !slices.Contains(names, p.script) {
			names = append(names, p.script)
		}
	}
	return errors.New("the command line names none of " + strings.Join(names, ", "))
}

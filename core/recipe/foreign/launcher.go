package foreign

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"harness.invalid/core/bounded"
)

// launch is what stands before a script: how many processes share a step, and what it says about their precision.
type launch struct {
	processes int
	by        string   // the launchers' names; empty: there is none
	precision string   // of accelerate: fp16 or bf16
	unclear   []string // what may start more processes, each with the reason
}

// launcher is a row of the table of launchers. Options are without dashes, with underscores.
type launcher struct {
	total   []string // options with the number of all processes
	perNode []string // with those of a machine
	nodes   []string // with the number of machines
	list    []string // with a list of devices: localhost:0,1,2
	config  string   // with a file that has the number
	// byDefault is the number of processes without these options; 0: the command line does not say.
	byDefault int
}

// launchers by the name of their program or module. Sources: the manuals of PyTorch (torchrun), DeepSpeed, Open MPI,
// Horovod, Slurm (srun), accelerate and PopDist; huggingface/transformers, examples/pytorch/xla_spawn.py.
var launchers = map[string]launcher{
	"torchrun":                 torchLauncher,
	"torch.distributed.run":    torchLauncher,
	"torch.distributed.launch": torchLauncher,
	"deepspeed":                {perNode: []string{"num_gpus"}, nodes: []string{"num_nodes"}, list: []string{"include", "i"}},
	"mpirun":                   mpiLauncher,
	"mpiexec":                  mpiLauncher,
	"orterun":                  mpiLauncher,
	"horovodrun":               mpiLauncher,
	"srun": {total: []string{"n", "ntasks"}, perNode: []string{"ntasks_per_node", "gpus_per_node"},
		nodes: []string{"N", "nodes"}},
	"accelerate":   {total: []string{"num_processes"}, config: "config_file"},
	"poprun":       {total: []string{"num_replicas"}},
	"xla_spawn.py": {total: []string{"num_cores"}, byDefault: 1},
}

var (
	torchLauncher = launcher{perNode: []string{"nproc_per_node"}, nodes: []string{"nnodes"}, byDefault: 1}
	mpiLauncher   = launcher{total: []string{"np", "n", "c"}}
)

// started is a launcher on a command line.
type started struct {
	launcher
	name   string
	values map[string]string
}

var (
	interpreter = regexp.MustCompile(`^python[0-9.]*$`)
	attached    = regexp.MustCompile(`^-([nNc])([0-9]+)$`)
)

// wrappers are programs that start one process of what follows them.
var wrappers = []string{"nohup", "time", "env", "exec", "sudo", "nice", "bash", "sh", "!", "numactl", "taskset", "then", "do", "{"}

// parseLaunch reads the words before a script.
func parseLaunch(words []string, script string) (launch, error) {
	l := launch{processes: 1}
	var found []*started
	var devices string
	for i := 0; i < len(words); i++ {
		w := strings.TrimPrefix(words[i], "!") // of a notebook
		name := path.Base(w)
		if row, ok := launchers[name]; ok {
			found = append(found, &started{row, name, map[string]string{}})
			continue
		}
		if m := assignment.FindStringSubmatch(w); m != nil {
			if m[1] == "CUDA_VISIBLE_DEVICES" {
				devices = m[2]
			}
			continue
		}
		if strings.HasPrefix(w, "-") {
			value, used := optionValue(words, i)
			i += used
			if len(found) > 0 {
				key, _, _ := strings.Cut(strings.TrimLeft(w, "-"), "=")
				if m := attached.FindStringSubmatch(w); m != nil {
					key, value = m[1], m[2]
				}
				found[len(found)-1].values[strings.ReplaceAll(key, "-", "_")] = value
			}
			continue
		}
		launches := w == "launch" && len(found) > 0 && found[len(found)-1].name == "accelerate"
		if w != "" && !launches && !interpreter.MatchString(name) && !slices.Contains(wrappers, name) {
			l.unclear = append(l.unclear, fmt.Sprintf("%q before %s: it is not understood; if it starts several processes, the global "+
				"batch is larger", w, script))
		}
	}
	if len(found) == 0 {
		if devices != "" {
			l.processes, l.by = len(strings.Split(devices, ",")), "CUDA_VISIBLE_DEVICES"
		}
		return l, nil
	}
	return l, l.count(found)
}

// optionValue returns the value of the option words[i], and how many further words that takes.
func optionValue(words []string, i int) (string, int) {
	if _, value, given := strings.Cut(words[i], "="); given {
		return value, 0
	}
	if i+1 == len(words) || words[i] == "-m" || strings.HasPrefix(words[i+1], "-") {
		return "", 0
	}
	next := path.Base(words[i+1])
	if _, ok := launchers[next]; ok || interpreter.MatchString(next) {
		return "", 0
	}
	return words[i+1], 1
}

// count multiplies out the processes of launchers, the outermost first.
func (l *launch) count(found []*started) error {
	var names []string
	outer := 0
	for i, s := range found {
		names = append(names, s.name)
		total, nodes, err := s.processes(l)
		if err != nil {
			return err
		}
		switch {
		case i == 0 && total > 0:
			l.processes = total
		case i > 0 && total > 0 && (outer == 0 || outer == nodes):
			l.processes = total // the outer launcher starts one of the inner ones on each machine
		case i > 0 && total > 0:
			l.processes = total
			l.unclear = append(l.unclear, fmt.Sprintf("%s starts %d of %s, which is for %d machines: %d replicas are assumed",
				found[i-1].name, outer, s.name, nodes, total))
		case i+1 == len(found):
			l.unclear = append(l.unclear, fmt.Sprintf("%s: the command line does not say how many processes it starts: %d replica(s) assumed; "+
				"set phases.*.replicas", s.name, l.processes))
		}
		outer = total
	}
	l.by = strings.Join(names, " ")
	return nil
}

// processes returns the number of all processes and of machines. 0 processes: the command line does not say.
func (s *started) processes(l *launch) (total, nodes int, err error) {
	if p := s.values["mixed_precision"]; p == "fp16" || p == "bf16" {
		l.precision = p
	}
	if nodes, err = s.number(s.nodes, 1); err != nil {
		return 0, 0, err
	}
	perNode, err := s.number(s.perNode, 0)
	if err != nil {
		return 0, 0, err
	}
	if total, err = s.number(s.total, 0); err != nil || total > 0 {
		return total, nodes, err
	}
	if perNode > 0 {
		return perNode * nodes, nodes, nil
	}
	for _, key := range s.list {
		if _, devices, ok := strings.Cut(s.values[key], ":"); ok && !strings.ContainsAny(s.values[key], "@") {
			return len(strings.Split(devices, ",")), nodes, nil
		}
	}
	if file := s.values[s.config]; s.config != "" && file != "" {
		total, err = l.configured(file)
		return total, nodes, err
	}
	if s.name == "srun" && nodes > 1 {
		return nodes, nodes, nil // a task on each, by default
	}
	return s.byDefault * nodes, nodes, nil
}

// number is the value of the first of some options that is given.
func (s *started) number(options []string, byDefault int) (int, error) {
	for _, key := range options {
		text, ok := s.values[key]
		if !ok {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 4096 {
			dashes := "--"
			if len(key) < 3 {
				dashes = "-"
			}
			return 0, fmt.Errorf("%s %s%s is %q, want a number of processes from 1 to 4096", s.name, dashes, key, text)
		}
		return n, nil
	}
	return byDefault, nil
}

// configured reads a configuration of accelerate.
func (l *launch) configured(file string) (int, error) {
	text, err := bounded.ReadFile(file, bounded.MiB)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	var c struct {
		Processes int    `yaml:"num_processes"`
		Precision string `yaml:"mixed_precision"`
	}
	if err := yaml.Unmarshal(text, &c); err != nil {
		return 0, fmt.Errorf("accelerate --config_file %s: %w", file, err)
	}
	if c.Processes < 0 || c.Processes > 4096 {
		return 0, fmt.Errorf("accelerate --config_file %s: num_processes is %d, want 1 to 4096", file, c.Processes)
	}
	if l.precision == "" && (c.Precision == "fp16" || c.Precision == "bf16") {
		l.precision = c.Precision
	}
	return c.Processes, nil
}

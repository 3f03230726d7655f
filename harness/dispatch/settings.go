package dispatch

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"harness.invalid/core/bounded"
	"harness.invalid/core/recipe"
	"harness.invalid/harness/executor"
)

// Scheduler are the settings of a scheduler: those of all runs, and those of single backends, which replace and add to
// them. A backend is named as an arm names it (gpu-ref:fp16), or without its precision.
type Scheduler struct {
	All      map[string]string            `json:"all,omitempty"`
	Backends map[string]map[string]string `json:"backends,omitempty"`
}

// of are the settings of a backend's runs, by name.
func (s *Scheduler) of(spec recipe.Spec) []executor.Setting {
	all := maps.Clone(s.All)
	if all == nil {
		all = map[string]string{}
	}
	for _, name := range []string{spec.Name, spec.Base()} {
		maps.Copy(all, s.Backends[name])
	}
	var list []executor.Setting
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, executor.Setting{Name: name, Value: all[name]})
	}
	return list
}

// ErrSettings is wrapped by errors about settings that can't be read.
var ErrSettings = errors.New("want NAME=VALUE,..., or a file of YAML")

// Read adds settings from a text, NAME=VALUE,NAME=VALUE, or from a file NAME.yaml, in which backends has those of single
// backends:
//
//	partition: cpu
//	time: "2:00:00"
//	backends:
//	  ipu: {partition: pod}
//
// What has no = belongs to the value before it, as in gres=gpu:1,shard:2.
func (s *Scheduler) Read(text string) error {
	if ext := filepath.Ext(text); !strings.Contains(text, "=") && (ext == ".yaml" || ext == ".yml") {
		return s.readFile(text)
	}
	if s.All == nil {
		s.All = map[string]string{}
	}
	last := ""
	for part := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(part, "=")
		switch {
		case ok && name != "":
			s.All[name], last = value, name
		case !ok && last != "":
			s.All[last] += "," + part
		default:
			return fmt.Errorf("%q: %w", text, ErrSettings)
		}
	}
	return nil
}

// mostSettings is the size of a file of settings that is read.
const mostSettings = 64 * bounded.KiB

func (s *Scheduler) readFile(path string) error {
	text, err := bounded.ReadFile(path, mostSettings)
	if err != nil {
		return err
	}
	if err := bounded.YAML(text); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	var file map[string]any
	if err := yaml.Unmarshal(text, &file); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	backends, _ := file["backends"].(map[string]any)
	if file["backends"] != nil && backends == nil {
		return fmt.Errorf("%s: backends: want settings by the name of a backend", path)
	}
	delete(file, "backends")
	if s.All, err = texts(s.All, file); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if s.Backends == nil {
		s.Backends = map[string]map[string]string{}
	}
	for name, of := range backends {
		settings, ok := of.(map[string]any)
		if !ok {
			return fmt.Errorf("%s: backends.%s: want NAME: VALUE", path, name)
		}
		if s.Backends[name], err = texts(s.Backends[name], settings); err != nil {
			return fmt.Errorf("%s: backends.%s: %w", path, name, err)
		}
	}
	return nil
}

// texts adds values to settings. A time such as 1:00:00 is a text in YAML 1.2, a number is a count.
func texts(into map[string]string, values map[string]any) (map[string]string, error) {
	if into == nil {
		into = map[string]string{}
	}
	for name, v := range values {
		switch v := v.(type) {
		case string:
			into[name] = v
		case uint64, int64:
			into[name] = fmt.Sprint(v)
		case nil:
			into[name] = ""
		default:
			return nil, fmt.Errorf("%s is %v, want a text or a whole number", name, v)
		}
	}
	return into, nil
}

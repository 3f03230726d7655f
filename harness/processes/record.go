package processes

import (
	"harness.invalid/core/plugin/host"
	"harness.invalid/harness/catalog"
	"harness.invalid/results"
)

// record is what a run keeps of a plugin that takes part, apart from the version, which the plugin itself states.
func record(from catalog.Entry, p *host.Process) (results.Plugin, error) {
	r := results.Plugin{Kind: string(from.Kind), Name: from.Name, Attached: string(from.Address)}
	if r.Attached != "" {
		return r, nil
	}
	s, err := Spec(from)
	if err != nil {
		return r, err
	}
	r.Path, r.Threads, r.Folder, r.Environment = from.Source(), s.Threads, s.Dir, p.Recorded()
	r.SHA256, err = from.Hash()
	return r, err
}

package catalog

import (
	"fmt"
	"os"
	"strings"

	"harness.invalid/core/plugin"
	"harness.invalid/core/plugin/host"
)

// AttachVariable is the environment variable that names plugins run by other processes, for example under a debugger, and
// where they listen: KIND/NAME=ADDRESS, separated by commas.
const AttachVariable = "HARNESS_ATTACH"

// Attached returns the plugins that AttachVariable names.
func Attached() ([]Entry, error) {
	var list []Entry
	for text := range strings.SplitSeq(os.Getenv(AttachVariable), ",") {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		plugins, address, _ := strings.Cut(text, "=")
		kind, name, _ := strings.Cut(plugins, "/")
		e := Entry{Kind: plugin.Kind(kind), Name: name, Address: host.Address(address)}
		if e.Kind != plugin.Backend && e.Kind != plugin.Optimizer || name == "" {
			return nil, fmt.Errorf("%s: %q is not KIND/NAME=ADDRESS, such as optimizer/mine=unix:/tmp/socket: "+
				"take it as harness plugin run --attach printed it", AttachVariable, text)
		}
		if err := e.Address.Check(); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", AttachVariable, plugins, err)
		}
		list = append(list, e)
	}
	return list, nil
}

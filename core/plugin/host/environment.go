package host

import (
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"harness.invalid/core/plugin/internal/wire"
)

// Environment is the environment of a plugin, sorted by name: the host's variables that plugins may see,
// GOMAXPROCS, and what is added. Of two values of a variable the later one counts, and added ones override all
// others.
func Environment(host []string, threads int, added []string) []string {
	values := map[string]string{}
	more := slices.DeleteFunc(named(host), func(name string) bool {
		// What a host that is itself a plugin was told is not meant for its own plugins.
		return slices.Contains([]string{wire.Handshake.MagicCookieKey, wire.ArenaVariable, wire.LifelineVariable, wire.HostVariable}, name)
	})
	for _, v := range host {
		name, value, ok := strings.Cut(v, "=")
		if ok && passes(name, more) {
			values[name] = value
		}
	}
	values["GOMAXPROCS"] = strconv.Itoa(threads)
	for _, v := range added {
		if name, value, ok := strings.Cut(v, "="); ok {
			values[name] = value
		}
	}
	return withVariables(nil, values)
}

// withVariables appends variables in the order of their names.
func withVariables(environment []string, values map[string]string) []string {
	environment = slices.Clone(environment)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		environment = append(environment, name+"="+values[name])
	}
	return environment
}

// inheritance is what the wire needs a plugin to inherit: variables and open files.
type inheritance struct {
	variables map[string]string
	files     []*os.File
}

// socketFolderVariable tells a plugin where to make its socket.
const socketFolderVariable = "PLUGIN_UNIX_SOCKET_DIR"

// newInheritance begins with what every plugin gets: where to make its socket, and the process to watch.
func newInheritance(sockets string) *inheritance {
	return &inheritance{variables: map[string]string{
		socketFolderVariable: sockets,
		wire.HostVariable:    strconv.Itoa(os.Getpid()),
	}}
}

// file passes on an open file, and its descriptor in a variable. Descriptors 0 to 2 are the standard streams.
func (i *inheritance) file(variable string, f *os.File) {
	i.variables[variable] = strconv.Itoa(3 + len(i.files))
	i.files = append(i.files, f)
}

// apply hands everything to a command, with the given environment.
func (i *inheritance) apply(cmd *exec.Cmd, environment []string) {
	cmd.Env = withVariables(environment, i.variables)
	cmd.ExtraFiles = i.files
}

package host

import (
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"harness.invalid/core/plugin/internal/wire"
)

// passed are the variables of the host's environment that plugins get. The rest would make runs differ between machines
// for reasons that no record shows; what else a plugin needs is set in its Spec.
var passed = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME",
	"SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "TEMP", "TMP", "USERPROFILE", "APPDATA", "LOCALAPPDATA",
	"PROGRAMDATA", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "VIRTUAL_ENV", "GODEBUG", "GORACE", "GOTRACEBACK", "GOCOVERDIR",
}

// passedPrefixes are prefixes of such variables: locales, this program's, Python's, and those of devices and numerical
// libraries.
var passedPrefixes = []string{
	"LC_", "HARNESS_", "PYTHON", "CUDA_", "NVIDIA_", "ROCR_", "HIP_", "OMP_", "OPENBLAS_", "MKL_", "POPLAR_", "IPUOF_",
}

// Environment is the environment of a plugin, sorted by name: the host's variables that plugins may see,
// GOMAXPROCS, and what is added. Of two values of a variable the later one counts, and added ones override all
// others.
func Environment(host []string, threads int, added []string) []string {
	values := map[string]string{}
	for _, v := range host {
		name, value, ok := strings.Cut(v, "=")
		if ok && passes(name) {
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

func passes(name string) bool {
	if runtime.GOOS == "windows" {
		name = strings.ToUpper(name)
	}
	switch name {
	// What a host that is itself a plugin was told is not meant for its own plugins.
	case wire.Handshake.MagicCookieKey, wire.ArenaVariable, wire.LifelineVariable, wire.HostVariable:
		return false
	// These concern the host alone. They may hold a password, and would appear in the record of the run.
	case "HARNESS_STORE", "HARNESS_DATA", "HARNESS_DATA_MIRROR", "HARNESS_ATTACH":
		return false
	}
	hasPrefix := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
	return slices.Contains(passed, name) || slices.ContainsFunc(passedPrefixes, hasPrefix)
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

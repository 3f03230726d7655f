package host

import (
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"harness.invalid/core/plugin/internal/wire"
)

// passed are the variables that plugins get from the host's environment. The rest would make runs differ between machines for
// reasons that no record shows; what a plugin needs beyond it is set in its Spec.
var passed = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME",
	"SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "TEMP", "TMP", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA",
	"LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "VIRTUAL_ENV", "GODEBUG", "GORACE", "GOTRACEBACK", "GOCOVERDIR",
}

// passedPrefixes are prefixes of such variables: locales, this program's, Python's, and those of devices and of libraries for their arithmetic.
var passedPrefixes = []string{"LC_", "HARNESS_", "PYTHON", "CUDA_", "NVIDIA_", "ROCR_", "HIP_", "OMP_", "OPENBLAS_", "MKL_", "POPLAR_", "IPUOF_"}

// Environment is the environment of a plugin: of the host's what plugins may see, GOMAXPROCS, and what is added, sorted by name.
// Of two values of a variable the later one counts, and what is added counts most.
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
	// What a host that is itself a plugin was told is not for its own plugins.
	case wire.Handshake.MagicCookieKey, wire.ArenaVariable, wire.LifelineVariable, wire.HostVariable:
		return false
	// These are the host's own business, may hold a password, and would stand in the record of the run.
	case "HARNESS_STORE", "HARNESS_DATA", "HARNESS_DATA_MIRROR", "HARNESS_ATTACH":
		return false
	}
	return slices.Contains(passed, name) || slices.ContainsFunc(passedPrefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}

package host

import (
	"os"
	"runtime"
	"slices"
	"strings"
)

// variables are the names of the host's variables that plugins get, and with their values the record of the run: names
// in full, since by a prefix NVIDIA_API_KEY or PYTHON_KEYRING_PASSWORD would be among them. The rest would make runs
// differ between machines for reasons that no record shows.
var variables = strings.Fields(`
	PATH HOME USER LOGNAME SHELL TZ TMPDIR XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME LD_LIBRARY_PATH DYLD_LIBRARY_PATH
	LANG LANGUAGE LC_ALL LC_COLLATE LC_CTYPE LC_MESSAGES LC_MONETARY LC_NUMERIC LC_TIME

	SYSTEMROOT SYSTEMDRIVE WINDIR COMSPEC PATHEXT TEMP TMP USERPROFILE APPDATA LOCALAPPDATA PROGRAMDATA

	HARNESS_CPU HARNESS_PYTHON HARNESS_PLUGIN_PATH
	GODEBUG GORACE GOTRACEBACK GOCOVERDIR

	VIRTUAL_ENV PYTHONPATH PYTHONHOME PYTHONHASHSEED PYTHONSAFEPATH PYTHONNOUSERSITE PYTHONUSERBASE PYTHONOPTIMIZE
	PYTHONDONTWRITEBYTECODE PYTHONPYCACHEPREFIX PYTHONUNBUFFERED PYTHONIOENCODING PYTHONUTF8 PYTHONWARNINGS
	PYTHONFAULTHANDLER PYTHONDEVMODE PYTHONMALLOC PYTHONTRACEMALLOC

	CUDA_VISIBLE_DEVICES CUDA_DEVICE_ORDER CUDA_LAUNCH_BLOCKING CUDA_MODULE_LOADING CUDA_HOME CUDA_PATH CUDA_CACHE_PATH
	CUDA_CACHE_DISABLE CUDA_CACHE_MAXSIZE CUDA_FORCE_PTX_JIT CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY
	CUDA_MPS_ACTIVE_THREAD_PERCENTAGE CUBLAS_WORKSPACE_CONFIG
	NVIDIA_VISIBLE_DEVICES NVIDIA_DRIVER_CAPABILITIES NVIDIA_TF32_OVERRIDE
	ROCR_VISIBLE_DEVICES HIP_VISIBLE_DEVICES HIP_LAUNCH_BLOCKING HIP_PATH

	OMP_NUM_THREADS OMP_DYNAMIC OMP_PROC_BIND OMP_PLACES OMP_SCHEDULE OMP_STACKSIZE OMP_WAIT_POLICY OMP_THREAD_LIMIT
	OMP_NESTED OMP_MAX_ACTIVE_LEVELS
	OPENBLAS_NUM_THREADS OPENBLAS_CORETYPE OPENBLAS_MAIN_FREE OPENBLAS_VERBOSE
	MKL_NUM_THREADS MKL_DYNAMIC MKL_DOMAIN_NUM_THREADS MKL_CBWR MKL_ENABLE_INSTRUCTIONS MKL_THREADING_LAYER
	MKL_INTERFACE_LAYER MKL_VERBOSE

	POPLAR_ENGINE_OPTIONS POPLAR_TARGET_OPTIONS POPLAR_RUNTIME_OPTIONS POPLAR_LOG_LEVEL POPLAR_LOG_DEST
	IPUOF_CONFIG_PATH IPUOF_LOG_LEVEL IPUOF_VIPU_API_HOST IPUOF_VIPU_API_PORT IPUOF_VIPU_API_PARTITION_ID
	IPUOF_VIPU_API_GCD_ID IPUOF_VIPU_API_TIMEOUT
`)

// PassVariable is the environment variable with which a user names others, separated by commas, that plugins get as
// well. Records have their names, and Withheld for their values, which may be passwords.
const PassVariable = "HARNESS_PLUGIN_ENVIRONMENT"

// Withheld stands in records for the value of a variable that PassVariable names.
const Withheld = "(not recorded)"

// named are the variables that a user wants plugins to get.
func named(host []string) []string {
	var names []string
	for _, v := range host {
		if name, value, _ := strings.Cut(v, "="); name == PassVariable {
			names = names[:0] // the later value of a variable counts
			for n := range strings.SplitSeq(value, ",") {
				if n = strings.TrimSpace(n); n != "" {
					names = append(names, n)
				}
			}
		}
	}
	return names
}

// passes reports whether a variable of the host is handed to plugins.
func passes(name string, more []string) bool {
	if slices.Contains(more, name) {
		return true
	}
	if runtime.GOOS == "windows" {
		name = strings.ToUpper(name)
	}
	return slices.Contains(variables, name)
}

// Recorded is the environment of a plugin, by name, as a record may have it.
func (p *Process) Recorded() map[string]string {
	withheld := named(os.Environ())
	values := map[string]string{}
	for _, v := range p.environment {
		name, value, _ := strings.Cut(v, "=")
		if slices.Contains(withheld, name) && !passes(name, nil) {
			value = Withheld
		}
		values[name] = value
	}
	return values
}

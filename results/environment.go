package results

import (
	"runtime"
	"runtime/debug"
	"time"

	"golang.org/x/sys/cpu"
)

// Environment is where a run took place.
type Environment struct {
	Time        time.Time `json:"time"`
	OS          string    `json:"os"`
	Arch        string    `json:"arch"`
	CPU         string    `json:"cpu"`          // model, as the system names it
	CPUFeatures []string  `json:"cpu_features"` // those that kernels may use
	// Kernels is the path that built-in plugins compute on, such as amd64/avx512/GenuineIntel. It decides the last
	// bits.
	Kernels     string    `json:"kernels,omitempty"`
	CPUs        int       `json:"cpus"`    // that the process may use
	Threads     int       `json:"threads"` // GOMAXPROCS
	Memory      int64     `json:"memory_bytes,omitempty"`
	LoadAverage []float64 `json:"load_average,omitempty"` // 1, 5 and 15 minutes

	Go       string `json:"go"`
	Version  string `json:"version"`            // of the program's module
	Revision string `json:"revision,omitempty"` // of its source
	// ProgramSHA256 is that of the program's file.
	ProgramSHA256 string   `json:"program_sha256,omitempty"`
	Modified      bool     `json:"modified,omitempty"` // the source was changed after Revision
	Tags          string   `json:"tags,omitempty"`     // of the build
	Plugins       []Plugin `json:"plugins"`
	// Transport is how tensors travelled between host and plugins; the bits are the same with all.
	Transport string `json:"transport,omitempty"`
}

// Plugin is a program that took part in a run.
type Plugin struct {
	Kind    string `json:"kind"` // backend or optimizer
	Name    string `json:"name"`
	Version string `json:"version"`
	Path    string `json:"path"` // of its file or its folder
	SHA256  string `json:"sha256"`
	// Attached is where the plugin listened if somebody else ran it, under a debugger. Fields left out here are
	// then unknown.
	Attached string `json:"attached,omitempty"`

	// How the program started it: the number of threads it should compute on, its working folder, and its
	// environment, which is part of the program's own.
	Threads     int               `json:"threads,omitempty"`
	Folder      string            `json:"working_folder,omitempty"`
	Environment map[string]string `json:"environment,omitempty"`
}

// CaptureEnvironment describes the machine and the program.
func CaptureEnvironment(plugins ...Plugin) Environment {
	e := Environment{
		Time: time.Now().UTC(), OS: runtime.GOOS, Arch: runtime.GOARCH, CPU: cpuModel(), CPUFeatures: cpuFeatures(), CPUs: runtime.NumCPU(),
		Threads: runtime.GOMAXPROCS(0), Memory: memoryBytes(), LoadAverage: LoadAverage(), Go: runtime.Version(), Plugins: plugins,
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		e.Version = info.Main.Version
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				e.Revision = s.Value
			case "vcs.modified":
				e.Modified = s.Value == "true"
			case "-tags":
				e.Tags = s.Value
			}
		}
	}
	return e
}

// cpuFeatures are the instruction sets that numeric kernels are written for.
func cpuFeatures() []string {
	features := []string{}
	for _, f := range []struct {
		name string
		has  bool
	}{
		{"avx2", cpu.X86.HasAVX2}, {"fma", cpu.X86.HasFMA},
		{"avx512f", cpu.X86.HasAVX512F}, {"avx512bw", cpu.X86.HasAVX512BW}, {"avx512vl", cpu.X86.HasAVX512VL},
		{"avx512bf16", cpu.X86.HasAVX512BF16},
		{"asimd", cpu.ARM64.HasASIMD}, {"asimdhp", cpu.ARM64.HasASIMDHP}, {"sve", cpu.ARM64.HasSVE},
	} {
		if f.has {
			features = append(features, f.name)
		}
	}
	return features
}

package host

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// Bubblewrap is the sandbox that harness knows itself: bwrap, of the package bubblewrap of most distributions of Linux. Any
// other name is of a program that is started in place of the plugin, with the plugin's command line as its arguments. It
// must run that with the environment and the open files that it has itself, and let it write into the folder that
// PLUGIN_UNIX_SOCKET_DIR names.
const Bubblewrap = "bwrap"

// CheckSandbox reports a sandbox that cannot be used here.
func CheckSandbox(name string) error {
	if name == "" {
		return nil
	}
	if runtime.GOOS != "linux" {
		return fmt.Errorf("sandbox %s: there is none on %s", name, runtime.GOOS)
	}
	if _, err := exec.LookPath(name); err != nil {
		return fmt.Errorf("sandbox %s: %w: on Debian: apt-get install bubblewrap", name, err)
	}
	return nil
}

// confined is the command line of the plugin within its sandbox.
func (s *Spec) confined(sockets string, environment []string) (path string, args []string, err error) {
	if s.Sandbox == "" {
		return s.Path, s.Args, nil
	}
	if err := CheckSandbox(s.Sandbox); err != nil {
		return "", nil, err
	}
	path, err = exec.LookPath(s.Path)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return "", nil, err
	}
	command := append([]string{path}, s.Args...)
	if s.Sandbox == Bubblewrap {
		command = append(bubblewrap(path, s, sockets, environment), command...)
	}
	return s.Sandbox, command, nil
}

// systemFolders are what programs are made of, and what tells them about processors and devices.
var systemFolders = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/opt", "/sys",
	"/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime", "/etc/OpenCL",
}

// devices are those that plugins compute on.
var devices = []string{"/dev/nvidia*", "/dev/dri", "/dev/kfd", "/dev/ipu*"}

// bubblewrap are bwrap's arguments before the command: no network, no other processes, the system's folders and what the
// plugin is made of to be read, its socket's folder to be written, and nothing else of the disk. What it writes elsewhere is
// in memory and gone at its end.
func bubblewrap(path string, s *Spec, sockets string, environment []string) []string {
	args := []string{"--die-with-parent", "--new-session", "--unshare-all", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp",
		"--tmpfs", "/run"}
	read := func(paths ...string) {
		for _, p := range paths {
			args = append(args, "--ro-bind-try", p, p)
		}
	}
	read(systemFolders...)
	for _, pattern := range devices {
		found, _ := filepath.Glob(pattern) // the patterns are well formed
		for _, d := range found {
			args = append(args, "--dev-bind", d, d)
		}
	}
	own := append([]string{path, s.Files}, s.Args...)
	for _, v := range environment {
		name, value, _ := strings.Cut(v, "=")
		switch name {
		case "HOME", "TMPDIR": // folders to write into
			args = append(args, "--dir", value)
		case "PYTHONPATH", "VIRTUAL_ENV", "LD_LIBRARY_PATH":
			own = append(own, filepath.SplitList(value)...)
		}
	}
	if real, err := filepath.EvalSymlinks(path); err == nil && real != path {
		// An interpreter of the user's own, of a virtual environment or of pyenv: its modules lie beside the folder with the
		// program.
		for _, p := range []string{path, real} {
			if filepath.Base(filepath.Dir(p)) == "bin" {
				own = append(own, p, filepath.Dir(filepath.Dir(p)))
			}
		}
	}
	for _, p := range own {
		if _, err := os.Stat(p); err == nil && filepath.IsAbs(p) && p != "/" {
			read(p)
		}
	}
	return append(args, "--bind", sockets, sockets, "--chdir", "/", "--")
}

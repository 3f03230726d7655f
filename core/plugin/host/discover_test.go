package host_test

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"harness.invalid/core/plugin/host"
)

func TestDiscover(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("writes executables by their mode")
	}
	first, second := t.TempDir(), t.TempDir()
	write := func(mode os.FileMode, elem ...string) string {
		path := filepath.Join(elem...)
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	tpu := write(0o755, first, "harness-backend-tpu")
	write(0o644, first, "harness-optimizer-lion")
	write(0o755, first, "harness-optimizer-Adam_W")
	write(0o755, first, "harness-model-gpt")
	write(0o755, first, "other")
	write(0o755, second, "harness-backend-tpu")
	lion := write(0o755, second, "harness-optimizer-lion")
	tpuRule := write(0o755, second, "harness-optimizer-tpu")
	if err := os.Mkdir(filepath.Join(second, "harness-backend-folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	found, err := host.Discover([]string{"", first, filepath.Join(first, "missing"), second, first + "/"})
	if err != nil {
		t.Fatal(err)
	}
	usable := map[string]string{}
	problems := map[string]string{}
	for _, f := range found {
		if f.Problem == "" {
			usable[string(f.Kind)+" "+f.Name] = f.Path
		} else {
			problems[f.Path] = f.Problem
		}
	}
	if len(usable) != 3 || usable["backend tpu"] != tpu || usable["optimizer lion"] != lion || usable["optimizer tpu"] != tpuRule {
		t.Errorf("usable: %v", usable)
	}
	for path, want := range map[string]string{
		filepath.Join(first, "harness-optimizer-lion"):                            "not executable: run chmod +x",
		filepath.Join(first, "harness-optimizer-Adam_W"):                          "other characters",
		filepath.Join(second, "harness-backend-tpu"):                              "shadowed by " + tpu,
		filepath.Join(second, "harness-backend-folder", "harness-backend-folder"): "a folder without an executable harness-backend-folder in it",
	} {
		if !strings.Contains(problems[path], want) {
			t.Errorf("%s: problem %q, want %q", path, problems[path], want)
		}
		delete(problems, path)
	}
	if len(problems) != 0 {
		t.Errorf("more problems: %v", problems)
	}
	if _, err := host.Discover([]string{tpu}); err == nil {
		t.Error("a file among the folders gave no error")
	}
}

func TestSearchPath(t *testing.T) {
	t.Setenv("HARNESS_PLUGIN_PATH", strings.Join([]string{"/a", "/b"}, string(os.PathListSeparator)))
	t.Setenv("PATH", "/bin")
	own, err := host.UserFolder()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := host.SearchPath(), []string{"/a", "/b", own, "/bin"}; !slices.Equal(got, want) {
		t.Errorf("SearchPath = %v, want %v", got, want)
	}
}

func TestEnvironment(t *testing.T) {
	got := host.Environment([]string{
		"PATH=/bin", "HOME=/root", "SECRET=x", "LC_ALL=C", "OMP_NUM_THREADS=7", "HARNESS_CPU=avx2", "GOMAXPROCS=96",
		"HARNESS_LIFELINE_FD=9", "HARNESS_STORE=postgres://me:secret@host/runs",
		host.Handshake.MagicCookieKey + "=" + host.Handshake.MagicCookieValue,
		// Secrets that begin as other variables do.
		"NVIDIA_API_KEY=x", "HARNESS_API_KEY=x", "PYTHON_KEYRING_PASSWORD=x", "CUDA_TOKEN=x", "OMP_SECRET=x", "LC_SECRET=x",
		"PGPASSWORD=x", "MLFLOW_TRACKING_TOKEN=x", "AWS_SECRET_ACCESS_KEY=x", "HF_TOKEN=x",
		"TOKEN=t", host.PassVariable + "=TOKEN, HARNESS_LIFELINE_FD",
	}, 2, []string{"OMP_NUM_THREADS=2", "MY_OWN=1"})
	want := []string{"GOMAXPROCS=2", "HARNESS_CPU=avx2", "HOME=/root", "LC_ALL=C", "MY_OWN=1", "OMP_NUM_THREADS=2", "PATH=/bin",
		"TOKEN=t"}
	if !slices.Equal(got, want) {
		t.Errorf("Environment = %v, want %v", got, want)
	}
}

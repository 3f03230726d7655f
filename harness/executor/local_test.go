package executor

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestDivide(t *testing.T) {
	for _, c := range []struct {
		jobs  int
		cores []int
		gpus  []string
		want  []place
	}{
		{1, []int{0, 1}, nil, []place{{[]int{0, 1}, nil}}},
		{2, []int{0, 1, 4, 5, 6}, []string{"a", "b"}, []place{{[]int{0, 1}, []string{"a"}}, {[]int{4, 5, 6}, []string{"b"}}}},
		{2, []int{0, 1}, []string{"a", "b", "c", "d"}, []place{{[]int{0}, []string{"a", "b"}}, {[]int{1}, []string{"c", "d"}}}},
		{3, []int{0, 1, 2}, []string{"a", "b"}, []place{{[]int{0}, []string{"a"}}, {[]int{1}, []string{"b"}}, {[]int{2}, []string{"a"}}}},
	} {
		got := divide(c.jobs, c.cores, c.gpus)
		if !slices.EqualFunc(got, c.want, func(a, b place) bool { return slices.Equal(a.cores, b.cores) && slices.Equal(a.gpus, b.gpus) }) {
			t.Errorf("%d jobs: %v, want %v", c.jobs, got, c.want)
		}
	}
}

// TestPlaces: tasks that run beside each other have cores and GPUs of their own.
func TestPlaces(t *testing.T) {
	cores := allowedCores()
	if len(cores) < 2 || availableMemory() == 0 {
		t.Skip("one core, or a system that binds no process")
	}
	t.Setenv(gpuVariable, "3,7")
	ex, err := New("local", Options{Jobs: 2})
	if err != nil {
		t.Fatal(err)
	}
	// A task ends when both have begun, so that each has a place of its own.
	a := Array{Name: "a", Folder: t.TempDir(), Work: t.TempDir(), Tasks: 2, Memory: 1 << 20, Command: []string{program(t,
		`touch "$1"; while [ ! -e 0 ] || [ ! -e 1 ]; do sleep 0.01; done
		grep Cpus_allowed_list /proc/self/status; echo "$GOMAXPROCS threads, GPU $CUDA_VISIBLE_DEVICES"`)}}
	id, err := ex.Submit(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	await(t, ex, id, 2, Ended)
	logs := []string{ex.Logs(a, 0, 1000), ex.Logs(a, 1, 1000)}
	slices.SortFunc(logs, func(a, b string) int { return strings.Compare(a[len(a)-1:], b[len(b)-1:]) })
	for i, gpu := range []string{"3", "7"} {
		want := ex.(*local).places[i]
		if !strings.HasSuffix(logs[i], fmt.Sprintf("%d threads, GPU %s", len(want.cores), gpu)) ||
			len(cores) == 2 && !strings.HasPrefix(logs[i], fmt.Sprintf("Cpus_allowed_list:\t%d\n", want.cores[0])) {
			t.Errorf("place %d is %+v, and its task printed %q", i, want, logs[i])
		}
	}
	if now := allowedCores(); !slices.Equal(now, cores) {
		t.Errorf("this process may use cores %v now, and %v before", now, cores)
	}
	a.Memory = ex.(*local).memory + 1
	if _, err := ex.Submit(t.Context(), a); err == nil || !strings.Contains(err.Error(), "MiB available") {
		t.Errorf("a task that needs more memory than there is: error %v", err)
	}
	a.Memory, a.Settings = 0, []Setting{{"partition", "gpu"}}
	if _, err := ex.Submit(t.Context(), a); err == nil || !strings.Contains(err.Error(), "no scheduler that takes settings") {
		t.Errorf("a setting: error %v", err)
	}
	if _, err := New("local", Options{Jobs: len(cores) + 1}); err == nil {
		t.Error("more jobs than cores are taken")
	}
}

func TestEndOf(t *testing.T) {
	path := t.TempDir() + "/log"
	if err := os.WriteFile(path, []byte("one\ntwo\nthree\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	for most, want := range map[int]string{100: "one\ntwo\nthree", 10: "three", 7: "three", 5: "", 0: ""} {
		if got := endOf(path, most); got != want {
			t.Errorf("the last %d bytes: %q, want %q", most, got, want)
		}
	}
}

package index

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRuns finds, opens and deletes runs through an index that Use fills from its folder.
func TestRuns(t *testing.T) {
	dir := t.TempDir()
	made := makeRuns(t, dir, mades[:2])
	location := filepath.Join(dir, "index.db")
	runs, err := OpenRuns(t.Context(), location, []string{made[0].ID[:8], dir})
	if err != nil || len(runs) != 2 || runs[0].ID != made[0].ID {
		t.Fatalf("an id and its folder are %d runs, %v; want 2, the one of the id first", len(runs), err)
	}
	if _, err := OpenRun(t.Context(), location, dir); err == nil || !strings.Contains(err.Error(), "holds 2 runs, want one") {
		t.Errorf("a folder of two is one run: %v", err)
	}
	if _, err := OpenRuns(t.Context(), location, []string{t.TempDir()}); err == nil || !strings.Contains(err.Error(), "holds no run") {
		t.Errorf("an empty folder: %v", err)
	}
	err = Use(t.Context(), location, func(x *Index) error {
		list, err := x.Select(t.Context(), []string{made[0].ID, made[1].ID}, "")
		if err != nil || len(list) != 2 || list[1].ID != made[1].ID {
			t.Fatalf("two ids are %v, %v", list, err)
		}
		moved := list[0]
		moved.Dir = list[1].Dir
		if err := x.Delete(t.Context(), moved); !errors.Is(err, ErrMoved) {
			t.Errorf("a folder that holds another run is deleted: %v", err)
		}
		if err := x.Delete(t.Context(), list[0]); err != nil {
			return err
		}
		if _, err := os.Stat(list[0].Dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the folder of a deleted run: %v", err)
		}
		left, err := x.Select(t.Context(), nil, "seed>0")
		if len(left) != 1 || left[0].ID != made[1].ID {
			t.Errorf("%v are left, want %s", left, made[1].ID)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestLocate(t *testing.T) {
	t.Setenv(Variable, "")
	if got := Locate(""); got != DefaultPath {
		t.Errorf("without a name the index is %s", got)
	}
	t.Setenv(Variable, "team.db")
	if got := Locate(""); got != "team.db" {
		t.Errorf("with $%s it is %s", Variable, got)
	}
	if got := Locate("mine.db"); got != "mine.db" {
		t.Errorf("a given one becomes %s", got)
	}
}

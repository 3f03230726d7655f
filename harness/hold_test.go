package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"harness.invalid/core/fault"
)

// holdVariable makes the program wait at a step: FILE:LINES is a record and how many lines it has then. It goes on once the
// file FILE.go is there. Without that a busy machine disturbs a run later than the test says, or when it is over.
const holdVariable = "HARNESS_TEST_HOLD"

// The files that say that a record is held, and that it may go on.
const heldFile, goFile = ".held", ".go"

// hold waits as holdVariable says.
func hold() {
	path, lines, ok := strings.Cut(os.Getenv(holdVariable), ":")
	if !ok {
		return
	}
	want, err := strconv.Atoi(lines)
	if err != nil {
		panic(err)
	}
	var once sync.Once
	fault.Intercept(func(op *fault.Op, do func() error) error {
		err := do()
		if at, _ := filepath.Abs(op.Path); err != nil || op.Kind != fault.Write || at != path {
			return err
		}
		record, err := os.ReadFile(path)
		if err == nil && bytes.Count(record, []byte("\n")) >= want {
			once.Do(func() {
				err = os.WriteFile(path+heldFile, nil, 0o666)
				for err == nil && !exists(path+goFile) {
					time.Sleep(time.Millisecond)
				}
			})
		}
		return err
	})
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

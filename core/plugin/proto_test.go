package plugin_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	protoField = regexp.MustCompile(`^\s+(repeated )?[\w.]+(<[^>]*>)? \w+ = \d+;`)
	protoBlock = regexp.MustCompile(`^\s*(service|rpc|message|enum) `)
)

// TestContractIsDocumented: every service, call, message and field of the contract has a comment, on its line or
// the line before. Plugins in other languages are written from it.
func TestContractIsDocumented(t *testing.T) {
	files, err := filepath.Glob("proto/v1/*.proto")
	if err != nil || len(files) == 0 {
		t.Fatalf("files %v, error %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		before := ""
		for i, line := range strings.Split(string(text), "\n") {
			documented := strings.Contains(line, "//") || strings.HasPrefix(strings.TrimSpace(before), "//")
			if (protoField.MatchString(line) || protoBlock.MatchString(line)) && !documented {
				t.Errorf("%s:%d has no comment: %s", file, i+1, strings.TrimSpace(line))
			}
			before = line
		}
	}
}

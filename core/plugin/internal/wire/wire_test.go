package wire

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"harness.invalid/core/plugin/internal/pb"
)

// TestEveryCallIsListed: the package comment, which is where a reader looks for the protocol, lists the calls of each
// service.
func TestEveryCallIsListed(t *testing.T) {
	source, err := os.ReadFile("wire.go")
	if err != nil {
		t.Fatal(err)
	}
	comment, _, _ := strings.Cut(string(source), "\npackage wire")
	for _, service := range []grpc.ServiceDesc{pb.Backend_ServiceDesc, pb.Optimizer_ServiceDesc, pb.Sections_ServiceDesc} {
		name := strings.TrimPrefix(service.ServiceName, "harness.v1.")
		row := regexp.MustCompile(`(?m)^//\t` + name + ` .*$`).FindString(comment)
		listed := map[string]bool{}
		for _, call := range regexp.MustCompile(`\w+`).FindAllString(strings.TrimPrefix(row, "//\t"+name), -1) {
			listed[call] = true
		}
		calls := []string{}
		for _, m := range service.Methods {
			calls = append(calls, m.MethodName)
		}
		for _, s := range service.Streams {
			calls = append(calls, s.StreamName)
		}
		for _, call := range calls {
			if !listed[call] {
				t.Errorf("%s.%s is not listed", name, call)
			}
			delete(listed, call)
		}
		if len(listed) > 0 {
			t.Errorf("%s lists calls that it does not have: %v", name, listed)
		}
	}
}

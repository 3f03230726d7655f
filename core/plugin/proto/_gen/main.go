// Command gen writes the Go code of the plugin protocol, and its descriptors for the SDK in Python, which makes its
// messages from them as it is imported. It compiles the .proto files itself, in Go, and runs the two generators
// that its go.mod pins, so that nothing has to be installed:
//
//	go -C core/plugin/proto/_gen run . -root .. -out ../../internal/pb -descriptors ../../python/harness_plugin/protocol.binpb
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	root := flag.String("root", "..", "folder that holds v1")
	out := flag.String("out", "../../internal/pb", "folder for the generated code")
	descriptors := flag.String("descriptors", "../../python/harness_plugin/protocol.binpb", "file for the compiled descriptors")
	flag.Parse()
	if err := generate(*root, *out, *descriptors); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func generate(root, out, descriptors string) error {
	files := []string{"v1/common.proto", "v1/optimizer.proto", "v1/program.proto", "v1/estimate.proto", "v1/backend.proto"}
	compiler := protocompile.Compiler{
		Resolver:       &protocompile.SourceResolver{ImportPaths: []string{root}},
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	compiled, err := compiler.Compile(context.Background(), files...)
	if err != nil {
		return err
	}
	request := &pluginpb.CodeGeneratorRequest{FileToGenerate: files, Parameter: proto.String("module=harness.invalid/core/plugin/internal/pb")}
	for _, f := range compiled {
		request.ProtoFile = append(request.ProtoFile, protoutil.ProtoFromFileDescriptor(f))
	}
	in, err := proto.MarshalOptions{Deterministic: true}.Marshal(request)
	if err != nil {
		return err
	}
	if err := writeDescriptors(descriptors, request.ProtoFile); err != nil {
		return err
	}
	var names []string
	for _, tool := range []string{"protoc-gen-go", "protoc-gen-go-grpc"} {
		written, err := run(tool, in, out)
		if err != nil {
			return fmt.Errorf("%s: %w", tool, err)
		}
		names = append(names, written...)
	}
	return removeOthers(out, names)
}

// writeDescriptors writes the files as a FileDescriptorSet, each after those that it imports, without comments and
// places in the source.
func writeDescriptors(path string, files []*descriptorpb.FileDescriptorProto) error {
	set := &descriptorpb.FileDescriptorSet{}
	for _, f := range files {
		f = proto.CloneOf(f)
		f.SourceCodeInfo = nil
		set.File = append(set.File, f)
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(set)
	if err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o644)
}

// run gives the request to a generator and writes what it answers.
func run(tool string, request []byte, out string) ([]string, error) {
	cmd := exec.Command("go", "tool", tool)
	cmd.Stdin = bytes.NewReader(request)
	cmd.Stderr = os.Stderr
	answer, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(answer, &response); err != nil {
		return nil, err
	}
	if response.Error != nil {
		return nil, fmt.Errorf("%s", *response.Error)
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return nil, err
	}
	var names []string
	for _, f := range response.File {
		name := filepath.Base(f.GetName())
		if err := os.WriteFile(filepath.Join(out, name), []byte(f.GetContent()), 0o644); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, nil
}

// removeOthers deletes generated files whose .proto file is gone.
func removeOthers(out string, names []string) error {
	found, err := filepath.Glob(filepath.Join(out, "*.pb.go"))
	if err != nil {
		return err
	}
	for _, path := range found {
		if !slices.Contains(names, filepath.Base(path)) {
			if err := os.Remove(path); err != nil {
				return err
			}
		}
	}
	return nil
}

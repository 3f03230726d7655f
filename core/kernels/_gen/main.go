// Command _gen writes the amd64 assembly of core/kernels with avo. Run it as `go generate ./core/kernels`.
package main

import (
	"flag"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/printer"
)

// files lists the assembly files, and what writes their functions.
var files = []struct {
	name  string
	write func(c *build.Context)
}{
	{"gemm_avx512", gemmAVX512},
	{"gemm_avx2", gemmAVX2},
	{"gemmrounded_avx512", gemmRounded(true)},
	{"gemmrounded_avx2", gemmRounded(false)},
	{"tiles", tiles},
	{"elementwise_avx512", elementwise(true)},
	{"elementwise_avx2", elementwise(false)},
	{"rows_avx512", rows(true)},
	{"rows_avx2", rows(false)},
	{"noise_avx512", noise(true)},
	{"noise_avx2", noise(false)},
	{"narrow_avx512", narrow(true)},
	{"narrow_avx2", narrow(false)},
	{"adam_avx512", adam(true)},
	{"adam_avx2", adam(false)},
	{"pause", pauseInstruction},
	{"cpuid", cpuidInstruction},
}

func main() {
	dir := flag.String("dir", "..", "folder of package kernels")
	flag.Parse()
	for _, f := range files {
		if err := generate(*dir, f.name, f.write); err != nil {
			log.Fatalf("%s: %v", f.name, err)
		}
	}
}

func generate(dir, name string, write func(c *build.Context)) error {
	c := build.NewContext()
	c.ConstraintExpr("amd64,!noasm")
	write(c)
	file, err := c.Result()
	if err != nil {
		return err
	}
	if err := pass.Compile.Execute(file); err != nil {
		return err
	}
	cfg := printer.Config{Argv: []string{"go", "generate", "./core/kernels"}, Pkg: "kernels"}
	for out, p := range map[string]printer.Printer{name + "_amd64.s": printer.NewGoAsm(cfg), name + "_amd64.go": printer.NewStubs(cfg)} {
		text, err := p.Print(file)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, out), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// function begins a function that takes pointers which do not escape.
func function(c *build.Context, name, signature string, doc ...string) {
	c.Function(name)
	c.Attributes(attr.NOSPLIT)
	c.Pragma("noescape")
	c.SignatureExpr(signature)
	c.Doc(strings.Split(strings.Join(doc, "\n"), "\n")...)
}

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"harness.invalid/core/dataset/synthetic"
	"harness.invalid/core/recipe"
	"harness.invalid/harness/train"
)

// documents are the files whose examples are held against the program, in the order in which a reader runs them.
var documents = []string{
	"README.md", "docs/README.md", "docs/recipes.md", "docs/data.md", "docs/tasks.md", "docs/execution.md",
	"docs/machines.md", "docs/plugins.md", "docs/ten-minutes.md", "docs/results.md", "docs/plugin-protocol.md",
	"docs/checkpoints.md", "docs/reports.md", "docs/performance.md", "docs/design.md", "harness/doc.go",
}

// document reads one of them.
func document(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// block is an example of a document.
type block struct {
	where string // FILE:LINE of its first line
	text  string
}

// blocks are the fenced blocks of a language in a Markdown file.
func blocks(t *testing.T, name, language string) []block {
	t.Helper()
	var found []block
	inside, wanted := false, false
	for i, line := range strings.SplitAfter(document(t, name), "\n") {
		fence, isFence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case isFence:
			inside = !inside
			if wanted = inside && fence == language; wanted {
				found = append(found, block{where: fmt.Sprintf("%s:%d", name, i+2)})
			}
		case wanted:
			found[len(found)-1].text += line
		}
	}
	if inside {
		t.Errorf("%s: a fenced block has no end", name)
	}
	return found
}

// commandLines are the command lines of a document: those in blocks of sh, and the indented ones of a Go comment.
func commandLines(t *testing.T, name string) []block {
	t.Helper()
	var lines []block
	if strings.HasSuffix(name, ".go") {
		for i, line := range strings.Split(document(t, name), "\n") {
			if command, ok := strings.CutPrefix(line, "//\tharness "); ok {
				lines = append(lines, block{fmt.Sprintf("%s:%d", name, i+1), "harness " + command})
			}
		}
		return lines
	}
	for _, b := range blocks(t, name, "sh") {
		for line := range strings.SplitSeq(strings.ReplaceAll(b.text, "\\\n", " "), "\n") {
			line, _, _ = strings.Cut(line, " #")
			if line = strings.TrimSpace(line); line != "" {
				lines = append(lines, block{b.where, line})
			}
		}
	}
	return lines
}

// notRun are beginnings of command lines that a test of the program has no business to run.
var notRun = []string{"harness data fetch ", "go test ./...", "go build -o ", "CGO_ENABLED=0 go build ", "go mod tidy"}

// smaller are the overrides that make an experiment of any recipe take a moment; what the document changes itself
// stays.
var smaller = []string{
	"model.num_hidden_layers=1", "model.hidden_size=32", "model.num_attention_heads=2", "model.intermediate_size=64", "vocab.size=300",
	"data.generated.people=50", "data.generated.questions=8", "data.generated.dev_questions=4", "data.held_out=0.3",
	"phases.*.length=64", "phases.*.steps=1", "phases.*.epochs=", "phases.*.max_predictions=8",
	"phases.*.question_answering={doc_stride: 32, max_query_length: 24}",
	"phases.*.global_batch=4", "phases.*.micro_batch=", "phases.*.accumulation=", "phases.*.replicas=",
	"phases.*.evaluation={every: 0, batch: 2, sequences: 2}", "phases.*.target=", "phases.*.checkpoint_every=",
}

// TestDocumentedCommands runs every command line of the documents as a reader would, in a folder with the files that
// they name: those of a document one after the other, documents beside each other. Experiments are made small by
// further flags.
func TestDocumentedCommands(t *testing.T) {
	if testing.Short() {
		t.Skip("trains and builds programs, and later lines need what earlier ones leave")
	}
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no sh here")
	}
	if raceDetector() {
		t.Skip("under the race detector each process waits for a second at its end, and there are more than a hundred")
	}
	dir := workspace(t)
	seen := map[string]bool{}
	for _, name := range documents {
		var lines []block
		for _, c := range commandLines(t, name) {
			c.text = strings.Replace(c.text, "go run ./harness ", "harness ", 1)
			if !seen[c.text] && !slices.ContainsFunc(notRun, func(p string) bool { return strings.HasPrefix(c.text, p) }) {
				seen[c.text] = true
				lines = append(lines, c)
			}
		}
		t.Run(strings.ReplaceAll(name, "/", "-"), func(t *testing.T) {
			t.Parallel()
			for i, c := range lines {
				t.Run(c.where, func(t *testing.T) {
					runs := fmt.Sprintf("runs/%s-%d", filepath.Base(name), i)
					runLine(t, shell, dir, c.text, runs)
				})
			}
		})
	}
	if len(seen) < 20 {
		t.Errorf("only %d command lines were found", len(seen))
	}
}

// smallerTuning are those for fine-tuning, where the model's folder says what shape the model has.
var smallerTuning = []string{
	"phases.*.steps=1", "phases.*.epochs=", "phases.*.global_batch=4",
	"phases.*.evaluation={every: 0, batch: 2, sequences: 2}",
}

// longTraining is what a line says that trains for long itself.
var longTraining = regexp.MustCompile(`steps=\d{3,}`)

// trainCommand is what a line that trains begins with.
var trainCommand = regexp.MustCompile(`harness (run|compare)\b`)

// runLine runs one command line. runs is a folder for the runs of an experiment that names none.
func runLine(t *testing.T, shell, dir, line, runs string) {
	trains := strings.Contains(line, "harness compare ") || strings.Contains(line, "harness run ")
	if strings.Contains(line, "python-rule") && !strings.Contains(line, "plugin new") {
		if _, err := anyPython(); err != nil {
			t.Skip(err)
		}
	}
	if strings.Contains(line, "golden/") && referenceFolder("..") == "" {
		t.Skip("the reference material is not there")
	}
	if trains {
		if !strings.Contains(line, "--out ") {
			line += " --out " + runs
		}
		// First, so that what the line itself sets holds.
		sets := smaller
		if strings.Contains(line, " model=") {
			sets = smallerTuning
		}
		line = trainCommand.ReplaceAllString(longTraining.ReplaceAllString(line, "steps=1"), "$0"+overrides(sets))
	}
	if strings.HasPrefix(line, "harness finetune ") {
		line += overrides(smallerTuning)
	}
	cmd := exec.CommandContext(t.Context(), shell, "-c", line)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), quickly()...),
		"HOME="+dir, "XDG_CONFIG_HOME=", "GOMODCACHE="+goEnv("GOMODCACHE"), "GOCACHE="+goEnv("GOCACHE"),
		"GOFLAGS="+quickLink, "GOPROXY=off", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", line, err, out)
	}
}

// overrides are flags that change a recipe.
func overrides(sets []string) string {
	flags := ""
	for _, s := range sets {
		flags += " --set '" + s + "'"
	}
	return flags
}

// raceDetector reports whether this program was built with it.
func raceDetector() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// workspace is a folder with the files that the documents name: wiki.txt, vocab.txt, train.json, dev.json, the files
// of docs/testdata/tasks in the forms of GLUE and CLUE, my.yaml, golden, and the plugins of third parties in plugins.
func workspace(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	files, err := synthetic.Write(dir, synthetic.Settings{Seed: 1, People: 50, Questions: 8, DevQuestions: 4})
	if err != nil {
		t.Fatal(err)
	}
	text := filepath.Join(dir, "wiki.txt")
	if err := os.Rename(files.Text, text); err != nil {
		t.Fatal(err)
	}
	if _, _, err := train.LearnVocab(filepath.Join(dir, "vocab.txt"), []string{text}, 300, 0, true); err != nil {
		t.Fatal(err)
	}
	for _, files := range []string{"tasks", "scores"} {
		if err := os.CopyFS(dir, os.DirFS("../docs/testdata/"+files)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "my.yaml"), []byte(exampleRecipe(t)), 0o666); err != nil {
		t.Fatal(err)
	}
	if reference := referenceFolder(".."); reference != "" {
		if err := os.Symlink(filepath.Join(reference, "golden"), filepath.Join(dir, "golden")); err != nil {
			t.Fatal(err)
		}
	}
	buildExamples(t, filepath.Join(dir, "plugins"))
	return dir
}

// buildExamples builds the plugins that docs/plugins.md shows. The optimizer is a module of its own, whose go.mod and
// go.sum are completed beside it and not in it.
func buildExamples(t *testing.T, folder string) {
	t.Helper()
	build := func(source, name string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "go", append(append([]string{"build", "-o", filepath.Join(folder, name)}, args...), ".")...)
		cmd.Dir = filepath.Join("..", filepath.FromSlash(source))
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS="+quickLink)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v\n%s", name, err, out)
		}
	}
	mod := filepath.Join(t.TempDir(), "go.mod")
	for to, from := range map[string]string{mod: optimizerExample + "/go.mod", strings.TrimSuffix(mod, "mod") + "sum": "go.sum"} {
		if err := os.WriteFile(to, []byte(document(t, from)), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	build(optimizerExample, "harness-optimizer-signum", "-modfile="+mod, "-mod=mod")
	build(backendExample, "harness-backend-bf16-only")
}

// The programs that docs/plugins.md shows.
const (
	optimizerExample = "core/plugin/testdata/example-optimizer"
	backendExample   = "docs/testdata/example-backend"
)

// TestDocumentedPlugins holds the code in docs/plugins.md against the programs that are built and tested.
func TestDocumentedPlugins(t *testing.T) {
	shown := blocks(t, "docs/plugins.md", "go")
	for _, example := range []string{optimizerExample, backendExample} {
		source := document(t, example+"/main.go")
		code := source[strings.Index(source, "func main()"):]
		if !slices.ContainsFunc(shown, func(b block) bool { return b.text == code }) {
			t.Errorf("docs/plugins.md does not show %s/main.go from func main on as it is", example)
		}
	}
}

// exampleRecipe is the first recipe in docs/recipes.md, which the documents call my.yaml.
func exampleRecipe(t *testing.T) string {
	t.Helper()
	found := blocks(t, "docs/recipes.md", "yaml")
	if len(found) == 0 {
		t.Fatal("docs/recipes.md has no recipe")
	}
	return found[0].text
}

// TestDocumentedRecipes loads every recipe in the documents.
func TestDocumentedRecipes(t *testing.T) {
	for _, name := range documents {
		for _, b := range blocks(t, name, "yaml") {
			if _, err := recipe.Parse(b.where, []byte(b.text)); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestDocumentedLinks follows all links of the documents that lead into the tree.
func TestDocumentedLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
	for _, name := range documents {
		for _, m := range link.FindAllStringSubmatch(document(t, name), -1) {
			target := filepath.Join("..", filepath.Dir(filepath.FromSlash(name)), filepath.FromSlash(m[1]))
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: link to %s: %v", name, m[1], err)
			}
		}
	}
}

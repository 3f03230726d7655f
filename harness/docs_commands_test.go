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
	"harness.invalid/harness/train"
)

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

// notRun are beginnings of command lines that the test leaves out: they need the network, or only build and test.
var notRun = []string{"harness data fetch ", "go test ./...", "go build -o ", "CGO_ENABLED=0 go build ", "go mod tidy",
	"harness bench machine", "harness estimate --backend torch"} // which measure PyTorch for a minute, or need what that left

// isRun reports whether the test of the documents runs a line: scripts already run some lines word for word.
func isRun(line string, inScripts map[string]bool) bool {
	return !inScripts[strings.TrimPrefix(line, "HARNESS_PLUGIN_PATH=~/plugins ")] &&
		!slices.ContainsFunc(notRun, func(p string) bool { return strings.HasPrefix(line, p) })
}

// scriptLines are the command lines of the scripts that run everywhere: those above the first that needs another
// program.
func scriptLines(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	lines := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "[!") || strings.HasPrefix(line, "-- ") {
				break
			}
			lines[strings.TrimSpace(line)] = true
		}
	}
	return lines
}

// smaller are the overrides that make an experiment of any recipe take a moment; what the document itself changes
// stays.
var smaller = []string{
	"start=", "model.num_hidden_layers=1", "model.hidden_size=32", "model.num_attention_heads=2", "model.intermediate_size=64",
	"vocab.size=300", "data.generated.people=50", "data.generated.questions=8", "data.generated.dev_questions=4",
	"data.held_out=0.3", "phases.*.length=64", "phases.*.steps=1", "phases.*.epochs=", "phases.*.max_predictions=8",
	"phases.*.question_answering={doc_stride: 32, max_query_length: 24}",
	"phases.*.global_batch=4", "phases.*.micro_batch=", "phases.*.accumulation=", "phases.*.replicas=",
	"phases.*.evaluation={every: 0, batch: 2, sequences: 2}", "phases.*.target=", "phases.*.checkpoint_every=",
}

// TestDocumentedCommands runs the command lines of the documents as a reader would, in a folder with the files that
// they name: the lines of a document one after the other, documents beside each other. Further flags make experiments
// small. Lines that a script runs are left to it.
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
	seen, inScripts := map[string]bool{}, scriptLines(t)
	for _, name := range documents {
		var lines []block
		for _, c := range commandLines(t, name) {
			c.text = strings.Replace(c.text, "go run ./harness ", "harness ", 1)
			if !seen[c.text] && isRun(c.text, inScripts) {
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
	"phases.*.steps=1", "phases.*.epochs=", "phases.*.global_batch=4", "phases.*.evaluation={every: 0, batch: 2, sequences: 2}",
}

// smallerShrunk are those for a recipe that was shrunk: pipeline, cut and packing stay.
var smallerShrunk = []string{
	"model.hidden_size=32", "model.intermediate_size=64", "vocab.size=300", "data.generated.people=50", "data.held_out=0.3",
	"phases.*.steps=1", "phases.*.schedule.warmup_steps=1", "phases.*.evaluation={every: 0, batch: 2, sequences: 2}",
}

// longTraining is what a line says that trains for long itself.
var longTraining = regexp.MustCompile(`steps=\d{3,}`)

// manySeeds is what a line says that trains one arm after another.
var (
	manySeeds  = regexp.MustCompile(`--seeds \d+`)
	timeBudget = regexp.MustCompile(` --budget \S+`)
)

// benchSize is what a line says about the size of a benchmark of the step.
var benchSize = regexp.MustCompile(`--(batch|steps) \d+`)

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
	if trains {
		if !strings.Contains(line, "--out ") {
			line += " --out " + runs
		}
		// First, so that what the line itself sets holds.
		sets := smaller
		if strings.Contains(line, " model=") {
			sets = smallerTuning
		}
		if strings.Contains(line, " pod.yaml") {
			sets = smallerShrunk
		}
		if strings.Contains(line, "harness compare ") && !strings.Contains(line, "--seeds ") && !strings.Contains(line, "--lockstep ") {
			line = timeBudget.ReplaceAllString(line, "")
			line = strings.Replace(line, "harness compare ", "harness compare --budget 1ms ", 1) // ends after a pair
		}
		line = manySeeds.ReplaceAllString(line, "--seeds 2")
		line = trainCommand.ReplaceAllString(longTraining.ReplaceAllString(line, "steps=1"), "$0"+overrides(sets))
	}
	if strings.HasPrefix(line, "harness bench step ") {
		line = strings.Replace(benchSize.ReplaceAllString(line, "--$1 1"), "--seq 384", "--seq 16", 1)
	}
	if strings.HasPrefix(line, "harness bench inference ") {
		line = strings.Replace(line, "--lengths 128,384", "--lengths 16,32", 1) + " --duration 20ms --seq 16"
	}
	if strings.HasPrefix(line, "harness finetune ") {
		line += overrides(smallerTuning)
	}
	cmd := exec.CommandContext(t.Context(), shell, "-c", line)
	cmd.Dir = dir
	slurm, err := filepath.Abs("executor/testdata/fakeslurm")
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(append(os.Environ(), quickly()...),
		"PATH="+slurm+":"+os.Getenv("PATH"), "FAKE_SLURM="+filepath.Join(dir, "slurm"), "FAKE_SLURM_AT_ONCE=1",
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
// of docs/testdata/tasks in the forms of GLUE and CLUE, my.yaml, slurm.yaml, golden, and the plugins of third parties in plugins.
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
	slurm := blocks(t, "docs/clusters.md", "yaml")[0].text
	if err := os.WriteFile(filepath.Join(dir, "slurm.yaml"), []byte(slurm), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "slurm"), 0o777); err != nil {
		t.Fatal(err)
	}
	golden, err := filepath.Abs(filepath.Join("..", excerpts, "golden"))
	if err != nil {
		t.Fatal(err)
	}
	plugins, err := examplePlugins()
	if err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"golden": golden, "plugins": plugins} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestGoOn: the command that goes on is the one that was given, with its folder, whichever way its flags were written.
func TestGoOn(t *testing.T) {
	for _, c := range []struct {
		args, flags []string
		want        string
	}{
		{[]string{"run", "--backend", "ipu"}, nil, "run --backend ipu --out 'my runs' --resume"},
		{[]string{"compare", "--backends=a,b", "--out", "my runs", "--resume"}, nil, "compare --backends=a,b --out 'my runs' --resume"},
		{[]string{"compare", "--out=other", "--set", "phases.*.steps=3", "--budget", "5m", "--quiet"}, []string{"--budget", "8m"},
			"compare --set 'phases.*.steps=3' --quiet --out 'my runs' --resume --budget 8m"},
	} {
		got := goOn(withArgs(t.Context(), c.args), "my runs", c.flags...)
		if _, rest, _ := strings.Cut(got, " "); rest != c.want {
			t.Errorf("%q: %s, want %s", c.args, rest, c.want)
		}
	}
}

// TestPlainErrors: what somebody gets wrong is named in the words of the command line, not in those of Go.
func TestPlainErrors(t *testing.T) {
	dir := t.TempDir()
	long := filepath.Join(dir, "long.txt")
	if err := os.WriteFile(long, bytes.Repeat([]byte("a"), 1<<17), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ line, want string }{
		{"run --backend gpu-ref --seed x", `--seed is "x", want a whole number of 0 or more`},
		{"compare --backends ipu --seeds 99999999999999999999", `--seeds is "99999999999999999999", want a whole number`},
		{"compare --backends ipu --budget soon", `--budget is "soon", want a time such as 90s, 10m or 1h30m`},
		{"bench step --fill x", `--fill is "x", want a number`},
		{"compare --backends ipu --quiet=x", `--quiet is "x", want true or false`},
		{"tokenize --vocab " + long, "vocabulary " + long + ": line 1 has more than 65536 bytes: want a token a line"},
		{"tokenize --vocab " + dir, "vocabulary: " + dir + " is a folder, want a file\n"},
		{"tokenize --vocab nowhere.txt", "vocabulary: nowhere.txt: there is no such file\n"},
		{"vocab train -o x", "hint: harness vocab train --help lists the flags"},
		{"report runs -o x.docx", "x.docx: no format has the ending .docx"},
		{"plot runs -o x.docx", `x.docx ends in ".docx", want .svg, .png, .pdf`},
		{"finetune --model bert-tiny --task squad --train a --dev b --backend gpu-ref",
			"hint: a model of Hugging Face comes with git and git-lfs: git clone https://huggingface.co/google-bert/bert-tiny bert-tiny\n"},
		{"run --backend gpu-ref --recipe tiny-wiki-squad --data text=no.txt --data vocab=" + long + " --data squad.train=no.json " +
			"--data squad.dev=" + dir,
			"harness: text no.txt: there is no such file\nsquad.train no.json: there is no such file\nsquad.dev " + dir +
				" is a folder, want a file\n"},
	} {
		var out, errOut bytes.Buffer
		code := execute(strings.Fields(c.line), strings.NewReader(""), &out, &errOut)
		if code != exitError || !strings.Contains(errOut.String(), c.want) {
			t.Errorf("%s: exit code %d, printed %s, want %s", c.line, code, errOut.String(), c.want)
		}
		for _, word := range []string{"strconv", "bufio", "invalid syntax", "not a regular file", "file does not exist"} {
			if strings.Contains(errOut.String(), word) {
				t.Errorf("%s: %q leaks into %s", c.line, word, errOut.String())
			}
		}
	}
	if entries, err := os.ReadDir("runs"); err == nil {
		t.Errorf("mistakes left a folder with %v", entries)
	}
}

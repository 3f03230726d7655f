package main

import (
	"context"
	"os"
	"slices"
	"strings"

	"harness.invalid/harness/hint"
)

type argsKey struct{}

// withArgs keeps the words of the command line, for hints that give it again.
func withArgs(ctx context.Context, args []string) context.Context {
	return context.WithValue(ctx, argsKey{}, args)
}

// goOn is the command line that goes on with the runs in a folder: this one, resumed, with other values of some flags.
func goOn(ctx context.Context, dir string, flags ...string) string {
	given, _ := ctx.Value(argsKey{}).([]string)
	flags = append([]string{"--out", dir, "--resume"}, flags...)
	words := []string{program()}
	for i := 0; i < len(given); i++ {
		name, _, whole := strings.Cut(given[i], "=")
		if !slices.Contains(flags, name) || !strings.HasPrefix(name, "--") {
			words = append(words, given[i])
			continue
		}
		if !whole && name != "--resume" {
			i++ // its value
		}
	}
	words = append(words, flags...)
	for i, w := range words[1:] {
		words[i+1] = hint.Quote(w)
	}
	return strings.Join(words, " ")
}

// program is how the program was started, as a word of a shell.
func program() string {
	name := os.Args[0]
	if strings.Contains(name, "/go-build") && !strings.HasSuffix(name, ".test") {
		return "go run ./harness" // its binary is gone by the time that somebody reads this
	}
	return hint.Quote(name)
}

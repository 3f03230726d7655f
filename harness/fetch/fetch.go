// Package fetch downloads data sets from the addresses that their makers give. It resumes interrupted downloads,
// checks every file against a sum, and unpacks archives. Addresses go in, a folder of files comes out.
package fetch

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"harness.invalid/core/durable"
	"harness.invalid/harness/hint"
)

// Fetcher downloads. Its zero value works.
type Fetcher struct {
	// Mirror is an address below which the files lie under their host and path, in place of the makers' own; empty: none.
	Mirror string
	Client *http.Client // nil: http.DefaultClient
	// Wait is the time before the second attempt at a file; it doubles from one to the next. 0: a second.
	Wait time.Duration
	// Patience is how long a server may send nothing before the connection is given up for another attempt. 0: a minute.
	Patience time.Duration
	// Progress receives the number of bytes of a file so far. total is -1 while it is unknown. It may be nil.
	Progress func(name string, done, total int64)
	// Say receives messages about what is being done. It may be nil.
	Say func(format string, args ...any)
}

// attempts at a file before it is given up.
const attempts = 5

// sumsFile is a folder's list of sums, as sha256sum writes it.
const sumsFile = "SHA256SUMS"

// lockFile is locked by the one process that downloads into a folder.
const lockFile = ".lock"

// ErrSum is wrapped by the error about a file whose sum is not the one that it should have.
var ErrSum = errors.New("wrong sum")

// Fetch downloads a set into a folder and returns the paths of its files, those that came out of archives among them.
// What is there already, and has its sum, is not downloaded again. One process at a time downloads into a folder
// (durable.ErrLocked).
func (f *Fetcher) Fetch(ctx context.Context, s *Set, dir string) (paths []string, err error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	unlock, err := durable.Lock(filepath.Join(dir, lockFile))
	if errors.Is(err, durable.ErrLocked) {
		return nil, fmt.Errorf("another process downloads into %s: wait until it is done: %w", dir, err)
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	sums, err := readSums(filepath.Join(dir, sumsFile))
	if err != nil {
		return nil, err
	}
	for _, file := range s.Files {
		to := filepath.Join(dir, filepath.FromSlash(file.Name))
		if err := f.file(ctx, file, to, sums); err != nil {
			return nil, fmt.Errorf("%s: %w", file.Name, err)
		}
		if err := writeSums(filepath.Join(dir, sumsFile), sums); err != nil {
			return nil, err
		}
		if file.Unpack == "" {
			paths = append(paths, to)
			continue
		}
		unpacked, err := unpack(to, filepath.Join(dir, filepath.FromSlash(file.Unpack)))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file.Name, err)
		}
		paths = append(paths, unpacked...)
	}
	return paths, nil
}

func (f *Fetcher) say(format string, args ...any) {
	if f.Say != nil {
		f.Say(format, args...)
	}
}

// file brings one file to its path.
func (f *Fetcher) file(ctx context.Context, file File, to string, sums map[string]string) error {
	want := cmp.Or(file.SHA256, sums[file.Name])
	if sum, err := sumOf(to, sha256.New()); err == nil {
		if want == sum {
			f.say("%s is there", file.Name)
			return nil
		}
		f.say("%s is there, but its sum is another: it is downloaded again", file.Name)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
		return err
	}
	part := to + ".part"
	if err := f.complete(ctx, file, part); err != nil {
		return err
	}
	sum, err := f.check(ctx, file, part, sums[file.Name])
	if err != nil {
		return err
	}
	sums[file.Name] = sum
	if err := os.Rename(part, to); err != nil {
		return err
	}
	return errors.Join(ignoreMissing(os.Remove(part+".etag")), durable.SyncDir(filepath.Dir(to)))
}

// complete downloads a part of a file until it is complete, in several attempts if need be.
func (f *Fetcher) complete(ctx context.Context, file File, part string) error {
	wait := cmp.Or(f.Wait, time.Second)
	for attempt := 1; ; attempt++ {
		err := f.download(ctx, file, part)
		var again *temporary
		if err == nil || attempt == attempts || !errors.As(err, &again) || ctx.Err() != nil {
			return err
		}
		f.say("%s: %s; once more in %v", file.Name, hint.Text(err), wait)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		wait *= 2
	}
}

// check checks a downloaded file against the sum that is known, published, or that of the first download, and returns
// its SHA-256.
func (f *Fetcher) check(ctx context.Context, file File, part, first string) (string, error) {
	sum, err := sumOf(part, sha256.New())
	if err != nil {
		return "", err
	}
	if file.SHA256 != "" && sum != file.SHA256 {
		return "", errors.Join(fmt.Errorf("the SHA-256 is %s, want %s: %w", sum, file.SHA256, ErrSum), discard(part))
	}
	if file.Sums != "" {
		return sum, f.published(ctx, file, part)
	}
	switch {
	case file.SHA256 != "":
	case first == "":
		f.say("%s: its makers publish no sum; that of this download is in %s", file.Name, sumsFile)
	case first != sum:
		return "", fmt.Errorf("the SHA-256 is %s, that of the first download was %s: %w: its makers have another file there, "+
			"or it was damaged on its way; to take it, remove its line from %s", sum, first, ErrSum, sumsFile)
	}
	return sum, nil
}

// Package fetch downloads data sets from the addresses that their makers give: it goes on where a download was cut
// short, holds every file against a sum, and unpacks archives. Addresses go in, a folder of files comes out.
package fetch

import (
	"archive/zip"
	"bufio"
	"cmp"
	"context"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"harness.invalid/core/durable"
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
	// Progress is told how many bytes of a file are there. total is -1 while it is not known. nil: nobody is told.
	Progress func(name string, done, total int64)
	// Say is told what is done, in words. nil: nobody is told.
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
	want := file.SHA256
	if want == "" {
		want = sums[file.Name]
	}
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
	wait := f.Wait
	if wait == 0 {
		wait = time.Second
	}
	part := to + ".part"
	for attempt := 1; ; attempt++ {
		err := f.download(ctx, file, part)
		if err == nil {
			break
		}
		var again *temporary
		if attempt == attempts || !errors.As(err, &again) || ctx.Err() != nil {
			return err
		}
		f.say("%s: %v; once more in %v", file.Name, err, wait)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		wait *= 2
	}
	sum, err := sumOf(part, sha256.New())
	if err != nil {
		return err
	}
	if file.SHA256 != "" && sum != file.SHA256 {
		return errors.Join(fmt.Errorf("the SHA-256 is %s, want %s: %w", sum, file.SHA256, ErrSum), discard(part))
	}
	if file.Sums != "" {
		if err := f.published(ctx, file, part); err != nil {
			return err
		}
	}
	if before := sums[file.Name]; file.SHA256 == "" && file.Sums == "" {
		switch {
		case before == "":
			f.say("%s: its makers publish no sum; that of this download is in %s", file.Name, sumsFile)
		case before != sum:
			return fmt.Errorf("the SHA-256 is %s, that of the first download was %s: %w: its makers have another file there, or it was damaged on its way; to take it, remove its line from %s",
				sum, before, ErrSum, sumsFile)
		}
	}
	sums[file.Name] = sum
	if err := os.Rename(part, to); err != nil {
		return err
	}
	return errors.Join(ignoreMissing(os.Remove(part+".etag")), durable.SyncDir(filepath.Dir(to)))
}

// errStalled ends a connection over which nothing comes.
var errStalled = errors.New("nothing came")

// temporary is an error after which another attempt is worth while.
type temporary struct{ error }

func (t *temporary) Unwrap() error { return t.error }

// address is where a file is looked for.
func (f *Fetcher) address(of string) (string, error) {
	u, err := url.Parse(of)
	if err != nil || f.Mirror == "" {
		return of, err
	}
	return strings.TrimSuffix(f.Mirror, "/") + "/" + u.Host + u.EscapedPath(), nil
}

func (f *Fetcher) get(ctx context.Context, at string, header http.Header) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, err
	}
	r.Header = header
	client := f.Client
	if client == nil {
		client = http.DefaultClient
	}
	response, err := client.Do(r)
	if err != nil {
		return nil, &temporary{err}
	}
	return response, nil
}

// download completes a part of a file. It goes on behind what is there when the server still has the same file.
func (f *Fetcher) download(ctx context.Context, file File, part string) (err error) {
	from, err := f.address(file.URL)
	if err != nil {
		return err
	}
	out, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	have, err := out.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	header := http.Header{"Accept-Encoding": {"identity"}, "User-Agent": {"harness"}}
	tag, _ := os.ReadFile(part + ".etag") // without one the part can't be told to be of the same file
	if have > 0 && len(tag) > 0 {
		header.Set("Range", fmt.Sprintf("bytes=%d-", have))
		header.Set("If-Range", string(tag))
	}
	patience := cmp.Or(f.Patience, time.Minute)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := time.AfterFunc(patience, func() { cancel(errStalled) })
	defer stalled.Stop()
	defer func() {
		if err != nil && context.Cause(ctx) == errStalled {
			err = &temporary{fmt.Errorf("%s: %w for %v", from, errStalled, patience)}
		}
	}()
	r, err := f.get(ctx, from, header)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	switch {
	case r.StatusCode == http.StatusRequestedRangeNotSatisfiable && r.Header.Get("Content-Range") == fmt.Sprintf("bytes */%d", have):
		return nil // all of it was there, of an attempt that ended before its sum was known
	case r.StatusCode == http.StatusPartialContent:
		var first int64
		if _, err := fmt.Sscanf(r.Header.Get("Content-Range"), "bytes %d-", &first); err != nil || first != have {
			return errors.Join(fmt.Errorf("%s answers with the part %q, asked for what follows %d", from, r.Header.Get("Content-Range"), have), discard(part))
		}
		f.say("%s: going on after %d bytes", file.Name, have)
	case r.StatusCode == http.StatusOK:
		have = 0
		if err := out.Truncate(0); err != nil {
			return err
		}
		if _, err := out.Seek(0, io.SeekStart); err != nil {
			return err
		}
	case r.StatusCode == http.StatusRequestedRangeNotSatisfiable:
		return &temporary{errors.Join(fmt.Errorf("%s answers %s", from, r.Status), out.Truncate(0), ignoreMissing(os.Remove(part+".etag")))}
	case r.StatusCode >= 500 || r.StatusCode == http.StatusTooManyRequests:
		return &temporary{fmt.Errorf("%s answers %s", from, r.Status)}
	default:
		return fmt.Errorf("%s answers %s", from, r.Status)
	}
	// A weak tag does not promise equal bytes.
	if tag := r.Header.Get("ETag"); tag != "" && !strings.HasPrefix(tag, "W/") {
		if err := os.WriteFile(part+".etag", []byte(tag), 0o666); err != nil {
			return err
		}
	} else if err := ignoreMissing(os.Remove(part + ".etag")); err != nil {
		return err
	}
	total := int64(-1)
	if r.ContentLength >= 0 {
		total = have + r.ContentLength
	}
	w := &teller{out, have, 0, func() { stalled.Reset(patience) }, func(done int64) {
		if f.Progress != nil {
			f.Progress(file.Name, done, total)
		}
	}}
	_, err = io.Copy(w, r.Body)
	if err == nil && total >= 0 && w.done != total {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return &temporary{fmt.Errorf("%s broke off after %d bytes: %w", from, w.done, err)}
	}
	w.tell(w.done)
	return out.Sync()
}

// teller tells now and then how much was written.
type teller struct {
	w          io.Writer
	done, told int64
	came       func() // something
	tell       func(done int64)
}

func (t *teller) Write(p []byte) (int, error) {
	t.came()
	n, err := t.w.Write(p)
	if t.done += int64(n); t.done-t.told >= 1<<18 {
		t.told = t.done
		t.tell(t.done)
	}
	return n, err
}

// published holds a file against the list of sums that its makers publish.
func (f *Fetcher) published(ctx context.Context, file File, at string) error {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(f.Patience, time.Minute)) // a list is short
	defer cancel()
	from, err := f.address(file.Sums)
	if err != nil {
		return err
	}
	r, err := f.get(ctx, from, http.Header{"User-Agent": {"harness"}})
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", from, r.Status)
	}
	first, last, _ := strings.Cut(path.Base(file.Name), "-latest-")
	lines := bufio.NewScanner(io.LimitReader(r.Body, 16<<20))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) != 2 || !strings.HasPrefix(fields[1], first+"-") || !strings.HasSuffix(fields[1], "-"+last) ||
			strings.Trim(fields[1][len(first):len(fields[1])-len(last)], "-0123456789") != "" {
			continue
		}
		h := map[int]func() hash.Hash{2 * md5.Size: md5.New, 2 * sha1.Size: sha1.New, 2 * sha256.Size: sha256.New}[len(fields[0])]
		if h == nil {
			return fmt.Errorf("%s has the sum %q of no known kind", from, fields[0])
		}
		sum, err := sumOf(at, h())
		if err != nil {
			return err
		}
		if sum != strings.ToLower(fields[0]) {
			return errors.Join(fmt.Errorf("the sum is %s, %s says %s: %w", sum, from, fields[0], ErrSum), discard(at))
		}
		return nil
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return fmt.Errorf("%s has no sum of it", from)
}

// discard removes a part, so that the next attempt begins anew.
func discard(part string) error {
	return errors.Join(os.Remove(part), ignoreMissing(os.Remove(part+".etag")))
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func sumOf(path string, h hash.Hash) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), errors.Join(err, f.Close())
}

func readSums(path string) (map[string]string, error) {
	sums := map[string]string{}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return sums, nil
	}
	for line := range strings.Lines(string(text)) {
		if sum, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  "); ok {
			sums[name] = sum
		}
	}
	return sums, err
}

func writeSums(path string, sums map[string]string) error {
	return durable.WriteFile(path, func(w io.Writer) error {
		names := make([]string, 0, len(sums))
		for name := range sums {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			if _, err := fmt.Fprintf(w, "%s  %s\n", sums[name], name); err != nil {
				return err
			}
		}
		return nil
	})
}

// maxUnpacked is the size of what comes out of one archive, far above the data sets here.
const maxUnpacked = 16 << 30

// unpack writes the files of a zip archive into a folder and returns their paths. A file that would lie outside of it
// is an error.
func unpack(archive, dir string) ([]string, error) {
	z, err := zip.OpenReader(archive)
	if err != nil {
		return nil, err
	}
	defer z.Close()
	var paths []string
	total := uint64(0)
	for _, f := range z.File {
		if total += f.UncompressedSize64; total > maxUnpacked {
			return nil, fmt.Errorf("it unpacks to more than %d bytes", int64(maxUnpacked))
		}
		if f.FileInfo().IsDir() || strings.HasPrefix(f.Name, "__MACOSX/") || path.Base(f.Name) == ".DS_Store" {
			continue
		}
		if !filepath.IsLocal(filepath.FromSlash(f.Name)) || !f.Mode().IsRegular() {
			return nil, fmt.Errorf("it has a file %q, which is not taken", f.Name)
		}
		to := filepath.Join(dir, filepath.FromSlash(f.Name))
		paths = append(paths, to)
		if info, err := os.Stat(to); err == nil && uint64(info.Size()) == f.UncompressedSize64 {
			continue // of an earlier time: files are there in full or not at all
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
			return nil, err
		}
		if err := durable.WriteFile(to, func(w io.Writer) error {
			r, err := f.Open()
			if err != nil {
				return err
			}
			_, err = io.Copy(w, io.LimitReader(r, int64(f.UncompressedSize64)+1)) // the reader checks size and CRC
			return errors.Join(err, r.Close())
		}); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	return paths, nil
}

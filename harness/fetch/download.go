package fetch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"harness.invalid/core/bounded"
	"harness.invalid/core/secret"
)

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
		return nil, &temporary{secret.Hide(err, at)}
	}
	return response, nil
}

// download completes a part of a file. It continues what is there if the server still has the same file.
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
	tag, _ := bounded.ReadFile(part+".etag", 4*bounded.KiB) // shows whether the part belongs to the same file
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
			err = &temporary{fmt.Errorf("%s: %w for %v", secret.Location(from), errStalled, patience)}
		}
	}()
	r, err := f.get(ctx, from, header)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if have, err = f.position(r, from, file, out, have); err != nil || r.StatusCode == http.StatusRequestedRangeNotSatisfiable {
		return err
	}
	if err := keepTag(part, r.Header.Get("ETag")); err != nil {
		return err
	}
	total, most := int64(-1), cmp.Or(file.Most, mostDownload)
	if r.ContentLength >= 0 {
		total = have + r.ContentLength
	}
	if have > most || total > most {
		return errors.Join(fmt.Errorf("%s has %d bytes, want at most %d: %w", secret.Location(from), max(have, total), most, bounded.ErrTooLarge),
			discard(part))
	}
	w := &teller{out, have, 0, func() { stalled.Reset(patience) }, func(done int64) {
		if f.Progress != nil {
			f.Progress(file.Name, done, total)
		}
	}}
	_, err = io.Copy(w, bounded.Reader(r.Body, most-have))
	if errors.Is(err, bounded.ErrTooLarge) {
		return errors.Join(fmt.Errorf("%s: %w", secret.Location(from), err), discard(part)) // no other attempt would be smaller
	}
	if err == nil && total >= 0 && w.done != total {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return &temporary{fmt.Errorf("%s broke off after %d bytes: %w", secret.Location(from), w.done, err)}
	}
	w.tell(w.done)
	return out.Sync()
}

// position prepares a part for the answer to a request for what follows its first have bytes, and returns where the
// answer begins. There is no error for an answer that says that the part is complete: an earlier attempt ended before
// its sum was known.
func (f *Fetcher) position(r *http.Response, from string, file File, out *os.File, have int64) (int64, error) {
	part := out.Name()
	switch ranges := r.Header.Get("Content-Range"); {
	case r.StatusCode == http.StatusOK:
		if err := out.Truncate(0); err != nil {
			return 0, err
		}
		_, err := out.Seek(0, io.SeekStart)
		return 0, err
	case r.StatusCode == http.StatusPartialContent:
		var first int64
		if _, err := fmt.Sscanf(ranges, "bytes %d-", &first); err != nil || first != have {
			return 0, errors.Join(fmt.Errorf("%s answers with the part %q, asked for what follows %d",
				secret.Location(from), ranges, have), discard(part))
		}
		f.say("%s: continuing after %d bytes", file.Name, have)
		return have, nil
	case r.StatusCode == http.StatusRequestedRangeNotSatisfiable && ranges == fmt.Sprintf("bytes */%d", have):
		return have, nil
	case r.StatusCode == http.StatusRequestedRangeNotSatisfiable:
		return 0, &temporary{errors.Join(fmt.Errorf("%s answers %s", secret.Location(from), r.Status),
			out.Truncate(0), ignoreMissing(os.Remove(part+".etag")))}
	case r.StatusCode >= 500 || r.StatusCode == http.StatusTooManyRequests:
		return 0, &temporary{fmt.Errorf("%s answers %s", secret.Location(from), r.Status)}
	}
	return 0, fmt.Errorf("%s answers %s", secret.Location(from), r.Status)
}

// keepTag keeps the tag of the file that a part is of. A weak tag is not kept: it does not promise equal bytes.
func keepTag(part, tag string) error {
	if tag == "" || strings.HasPrefix(tag, "W/") {
		return ignoreMissing(os.Remove(part + ".etag"))
	}
	return os.WriteFile(part+".etag", []byte(tag), 0o666)
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

package fetch

import (
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
	"path"
	"slices"
	"strings"
	"time"

	"harness.invalid/core/bounded"
	"harness.invalid/core/durable"
	"harness.invalid/core/secret"
)

// published checks a file against the list of sums that its makers publish.
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
		return fmt.Errorf("%s answers %s", secret.Location(from), r.Status)
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
			return fmt.Errorf("%s has the sum %q of no known kind", secret.Location(from), fields[0])
		}
		sum, err := sumOf(at, h())
		if err != nil {
			return err
		}
		if sum != strings.ToLower(fields[0]) {
			return errors.Join(fmt.Errorf("the sum is %s, %s says %s: %w", sum, secret.Location(from), fields[0], ErrSum), discard(at))
		}
		return nil
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return fmt.Errorf("%s has no sum of it", secret.Location(from))
}

func sumOf(path string, h hash.Hash) (string, error) {
	f, err := bounded.Open(path, bounded.TiB)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), errors.Join(err, f.Close())
}

func readSums(path string) (map[string]string, error) {
	sums := map[string]string{}
	text, err := bounded.ReadFile(path, 16*bounded.MiB)
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

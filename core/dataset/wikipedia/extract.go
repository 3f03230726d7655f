package wikipedia

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"runtime"

	"harness.invalid/core/bounded"
	"harness.invalid/core/dataset/pretraining"
	"harness.invalid/core/durable"
)

// Settings say what is extracted.
type Settings struct {
	// Least sentences of an article. Shorter ones are left out.
	Least int `json:"least_sentences"`
	// ShardBytes of text make a file, and the article that exceeds them.
	ShardBytes int64 `json:"shard_bytes"`
}

// Report is what became of a dump.
type Report struct {
	Settings
	Dump       string   `json:"dump"`       // its file, without folders
	DumpBytes  int64    `json:"dump_bytes"` // of the file as it is
	Complete   bool     `json:"complete"`
	Pages      int64    `json:"pages"`
	Others     int64    `json:"others"`     // redirects, and pages that are no articles
	Short      int64    `json:"short"`      // articles with fewer than Least sentences
	Duplicates int64    `json:"duplicates"` // articles with the text of an earlier one
	Articles   int64    `json:"articles"`
	Sentences  int64    `json:"sentences"`
	Bytes      int64    `json:"bytes"` // of text
	Shards     []string `json:"shards"`
}

// reportFile is the report in the folder of the text, and the journal while it is not complete.
const reportFile = "extraction.json"

// Extract writes the articles of a dump into a folder: shards NAME-00000.txt of text, and extraction.json. The same call
// goes on after the last shard of an extraction that was broken off, and changes nothing in one that is complete; the
// text does not depend on that, nor on the number of workers. Progress receives the bytes of the dump's file that were
// read. One process at a time extracts into a folder (durable.ErrLocked).
func Extract(ctx context.Context, dump, dir string, s Settings, progress func(done, total int64)) (_ *Report, err error) {
	if s.Least < 1 || s.ShardBytes < 1 {
		return nil, fmt.Errorf("wikipedia: at least %d sentences, shards of %d bytes: want 1 or more of each", s.Least, s.ShardBytes)
	}
	if err := durable.MkdirAll(dir); err != nil {
		return nil, err
	}
	unlock, err := durable.Lock(filepath.Join(dir, ".lock"))
	if errors.Is(err, durable.ErrLocked) {
		return nil, fmt.Errorf("another process extracts into %s: wait until it is done: %w", dir, err)
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	text, size, err := pretraining.OpenTextProgress(dump, progress)
	if err != nil {
		return nil, fmt.Errorf("wikipedia: %w", err)
	}
	defer func() { err = errors.Join(err, text.Close()) }()
	e := &extraction{dir: dir, Report: Report{Settings: s, Dump: filepath.Base(dump), DumpBytes: size}}
	if err := e.resume(); err != nil || e.Complete {
		return &e.Report, err
	}
	r, err := NewReader(text)
	if err == nil {
		err = e.run(ctx, r)
	}
	if err != nil {
		return nil, fmt.Errorf("wikipedia: %s: %w", dump, err)
	}
	return &e.Report, nil
}

// extraction writes shards.
type extraction struct {
	dir string
	Report
	skip  int64        // pages of an earlier attempt
	shard bytes.Buffer // that is being filled
	seen  seen
}

// resume reads the report of an earlier attempt, and its shards.
func (e *extraction) resume() error {
	path := filepath.Join(e.dir, reportFile)
	text, err := bounded.ReadFile(path, 64*bounded.MiB)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var before Report
	if err := json.Unmarshal(text, &before); err != nil {
		return fmt.Errorf("wikipedia: %s: %w: remove the folder and start over", path, err)
	}
	if before.Settings != e.Settings || before.Dump != e.Dump || before.DumpBytes != e.DumpBytes {
		return fmt.Errorf("wikipedia: %s has text of %s (%d bytes, at least %d sentences, shards of %d bytes): "+
			"choose another folder, or remove it", e.dir, before.Dump, before.DumpBytes, before.Least, before.ShardBytes)
	}
	e.Report, e.skip = before, before.Pages
	if e.Complete {
		return nil
	}
	for i, name := range e.Shards {
		if name != e.shardName(i) {
			return fmt.Errorf("wikipedia: %s: shard %d is %.40q, want %s", path, i, name, e.shardName(i))
		}
		text, err := bounded.ReadFileIn(e.dir, name, e.ShardBytes+mostPage)
		if err != nil {
			return fmt.Errorf("wikipedia: %w", err)
		}
		for article := range bytes.SplitSeq(text, []byte("\n\n")) {
			e.seen.add(bytes.TrimSuffix(article, []byte("\n")))
		}
	}
	return nil
}

func (e *extraction) shardName(i int) string { return fmt.Sprintf("text-%05d.txt", i) }

// article is what a worker makes of a page.
type article struct {
	text      []byte // without a line break at the end; nil: no article
	sentences int
	other     bool
	err       error
}

// run extracts the pages that follow those of an earlier attempt.
func (e *extraction) run(ctx context.Context, r *Reader) error {
	ctx, cancel := context.WithCancel(ctx)
	results := make(chan chan article, 4*runtime.GOMAXPROCS(0))
	go e.work(ctx, r, results)
	defer func() {
		cancel()
		for range results { // until the reader has stopped
		}
	}()
	for result := range results {
		a := <-result
		if a.err != nil {
			return a.err
		}
		if err := e.add(a); err != nil {
			return err
		}
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	e.Complete = true
	return e.close()
}

// work reads pages and makes articles of them on all CPUs. The results come in the order of the pages.
func (e *extraction) work(ctx context.Context, r *Reader, results chan<- chan article) {
	defer close(results)
	free := make(chan struct{}, runtime.GOMAXPROCS(0))
	number := int64(0)
	for p, err := range r.Pages() {
		if number++; err == nil && number <= e.skip {
			if ctx.Err() != nil {
				return
			}
			continue
		}
		result := make(chan article, 1)
		select {
		case results <- result:
		case <-ctx.Done():
			return
		}
		if err != nil {
			result <- article{err: err}
			return
		}
		free <- struct{}{}
		go func() {
			result <- e.article(&p, r.Namespaces())
			<-free
		}()
	}
}

func (e *extraction) article(p *Page, namespaces map[string]bool) article {
	if p.Namespace != 0 || p.Redirect {
		return article{other: true}
	}
	sentences := p.Sentences(namespaces)
	if len(sentences) < e.Least {
		return article{}
	}
	var b bytes.Buffer
	for i, s := range sentences {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(s)
	}
	return article{text: b.Bytes(), sentences: len(sentences)}
}

// add counts an article and writes it.
func (e *extraction) add(a article) error {
	e.Pages++
	switch {
	case a.other:
		e.Others++
		return nil
	case a.text == nil:
		e.Short++
		return nil
	case !e.seen.add(a.text):
		e.Duplicates++
		return nil
	}
	if e.shard.Len() > 0 {
		e.shard.WriteByte('\n')
	}
	e.shard.Write(a.text)
	e.shard.WriteByte('\n')
	e.Articles++
	e.Sentences += int64(a.sentences)
	if int64(e.shard.Len()) < e.ShardBytes {
		return nil
	}
	return e.close()
}

// close writes the shard, and then the report that knows of it.
func (e *extraction) close() error {
	if e.shard.Len() > 0 {
		name := e.shardName(len(e.Shards))
		if err := durable.WriteFile(filepath.Join(e.dir, name), func(w io.Writer) error {
			_, err := w.Write(e.shard.Bytes())
			return err
		}); err != nil {
			return err
		}
		e.Bytes += int64(e.shard.Len())
		e.Shards = append(e.Shards, name)
		e.shard.Reset()
	}
	if e.Complete && e.Articles == 0 {
		return fmt.Errorf("no page of %d is an article with %d sentences or more: %w", e.Pages, e.Least, ErrInvalid)
	}
	return durable.WriteFile(filepath.Join(e.dir, reportFile), func(w io.Writer) error {
		j := json.NewEncoder(w)
		j.SetIndent("", "  ")
		return j.Encode(&e.Report)
	})
}

package page

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"harness.invalid/harness/report"
	"harness.invalid/harness/series"
	"harness.invalid/results"
	"harness.invalid/results/verdict"
)

// Source says which runs there are.
type Source struct {
	Name string // of all of them together
	// Folders lists the folders of the runs, and notes on what is not among them.
	Folders func(context.Context) (dirs, notes []string, err error)
	Root    string // folders are shown as seen from here; "": in full
}

// InFolder is the source of the runs in a folder and below it.
func InFolder(root string) Source {
	return Source{Name: root, Root: root, Folders: func(context.Context) ([]string, []string, error) {
		dirs, err := results.Find(root)
		return dirs, nil, err
	}}
}

// folder names the folder that a run is in, for people.
func (s Source) folder(dir string) string {
	in := filepath.Dir(dir)
	if s.Root != "" {
		if rel, err := filepath.Rel(s.Root, in); err == nil {
			in = rel
		}
	}
	return filepath.ToSlash(in)
}

// Server shows the runs of a source: a list of experiments, and a page for each, which follows runs in progress. It
// only reads.
type Server struct {
	source Source
	// Every is how often to look at a folder while a reader waits for news.
	Every time.Duration
	mux   *http.ServeMux

	reading singleflight.Group // of folders
	waiting atomic.Int32       // readers of events

	mu    sync.Mutex      // held while known is looked at, never while a file is
	known map[string]read // by folder of the run
}

// read is a run as it was when its files had these sizes.
type read struct {
	mark   string
	record *series.Record
	err    error
}

// NewServer serves the runs of a source.
func NewServer(source Source) *Server {
	s := &Server{source: source, Every: time.Second, mux: http.NewServeMux(), known: map[string]read{}}
	s.mux.HandleFunc("GET /{$}", s.list)
	s.mux.HandleFunc("GET /report", s.report)
	s.mux.HandleFunc("GET /events", s.events)
	return s
}

// ServeHTTP answers a request. A server that is for this machine alone answers only if it is called by a name of
// this machine, so that no page from elsewhere can read it under a name of its own (DNS rebinding).
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok && local.IP.IsLoopback() && !loopback(r.Host) {
		http.Error(w, "this server is for this machine: use its address, such as http://localhost", http.StatusForbidden)
		return
	}
	h := w.Header()
	h.Set("Content-Security-Policy", policy+"; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	s.mux.ServeHTTP(w, r)
}

// loopback reports whether a Host header names this machine.
func loopback(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// experiment is a set of runs that can be compared: of one folder, recipe and data.
type experiment struct {
	folder, fingerprint, data string // folder is as the source shows it
	records                   []*series.Record
}

// query is the query that finds the experiment again.
func (e *experiment) query() string {
	return url.Values{"in": {e.folder}, "recipe": {e.fingerprint}, "data": {e.data}}.Encode()
}

// experiments reads all runs, the latest experiment first, and says which cannot be read.
func (s *Server) experiments(ctx context.Context) (all []*experiment, broken []string, err error) {
	dirs, broken, err := s.source.Folders(ctx)
	if err != nil {
		return nil, nil, err
	}
	s.forget(dirs)
	for _, dir := range dirs {
		k := s.look(dir)
		if k.err != nil {
			broken = append(broken, k.err.Error())
			continue
		}
		folder := s.source.folder(dir)
		i := slices.IndexFunc(all, func(e *experiment) bool {
			return e.folder == folder && e.fingerprint == k.record.Fingerprint && e.data == k.record.DataDigest
		})
		if i < 0 {
			i = len(all)
			all = append(all, &experiment{folder: folder, fingerprint: k.record.Fingerprint, data: k.record.DataDigest})
		}
		all[i].records = append(all[i].records, k.record)
	}
	for _, e := range all {
		series.SortByStart(e.records)
	}
	slices.SortStableFunc(all, func(a, b *experiment) int { return b.records[0].Began().Compare(a.records[0].Began()) })
	return all, broken, nil
}

// forget drops the runs whose folders are gone.
func (s *Server) forget(dirs []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for dir := range s.known {
		if !slices.Contains(dirs, dir) {
			delete(s.known, dir)
		}
	}
}

// look returns a run as it is now. What is known of it is not read again, and is read once for all who ask at the same
// time. A disk that does not answer holds up those who ask for the run, and nobody else.
func (s *Server) look(dir string) read {
	m := mark(dir)
	s.mu.Lock()
	k := s.known[dir]
	s.mu.Unlock()
	if k.mark == m {
		return k
	}
	now, _, _ := s.reading.Do(dir+"\n"+m, func() (any, error) {
		k := read{mark: m}
		var run *results.Run
		if run, k.err = results.Open(dir); k.err == nil {
			k.record, k.err = series.Read(run)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.known[dir] = k
		return k, nil
	})
	return now.(read)
}

// mark changes if the files of a run do, and if the process ends that writes them, which may leave them as they are.
func mark(dir string) string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	if held, err := results.Writing(dir); err == nil {
		fmt.Fprintln(&b, held)
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && !e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			fmt.Fprintf(&b, "%s %d %d\n", e.Name(), info.Size(), info.ModTime().UnixNano())
		}
	}
	return b.String()
}

// entry is an experiment in the list.
type entry struct {
	Name, Link string
	Facts      []string
	Standing   standing
	Sentences  []answer
	Runs       *report.Sheet
}

func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	all, broken, err := s.experiments(r.Context())
	if err != nil {
		fail(w, err)
		return
	}
	view := struct {
		Title, Events string
		Experiments   []entry
		Broken        []string
	}{Title: "Runs in " + s.source.Name, Events: "/events", Broken: broken}
	for _, e := range all {
		p, err := newPage(e.records, Options{})
		if err != nil {
			view.Broken = append(view.Broken, err.Error())
			continue
		}
		name := p.Title
		if e.folder != "." {
			name = e.folder + ": " + name
		}
		view.Experiments = append(view.Experiments, entry{Name: name, Link: "/report?" + e.query(), Facts: p.Facts, Standing: p.Standing,
			Sentences: p.Sentences, Runs: p.Runs})
	}
	show(w, "list", view)
}

func (s *Server) report(w http.ResponseWriter, r *http.Request) {
	all, _, err := s.experiments(r.Context())
	if err != nil {
		fail(w, err)
		return
	}
	want := r.URL.Query()
	i := slices.IndexFunc(all, func(e *experiment) bool {
		return e.folder == want.Get("in") && e.fingerprint == want.Get("recipe") && e.data == want.Get("data")
	})
	if i < 0 {
		http.Error(w, "there are no such runs (any more): see the list at /", http.StatusNotFound)
		return
	}
	p, err := newPage(all[i].records, Options{})
	if err != nil {
		fail(w, err)
		return
	}
	p.Home = "/"
	p.Events = "/events?" + url.Values{"in": {want.Get("in")}}.Encode()
	show(w, "report", p)
}

// show answers with a page.
func show(w http.ResponseWriter, name string, view any) {
	var out strings.Builder
	if err := templates().ExecuteTemplate(&out, name, view); err != nil {
		fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write([]byte(out.String())) // a reader who is gone has no use for the error
}

func fail(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	if errors.Is(err, verdict.ErrIncomparable) {
		status = http.StatusConflict
	}
	http.Error(w, err.Error(), status)
}

// keepAlive is how often to send something to a waiting reader, so that nothing in between drops the connection.
const keepAlive = 15 * time.Second

// MostWaiting is how many readers are told of progress at a time: each looks at the folders on its own.
const MostWaiting = 64

// events sends server-sent events when runs make progress: all runs, or those in one folder of the source.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	if s.waiting.Add(1) > MostWaiting {
		s.waiting.Add(-1)
		w.Header().Set("Retry-After", "60")
		http.Error(w, "as many readers wait for news as are told of them: reload the page instead", http.StatusServiceUnavailable)
		return
	}
	defer s.waiting.Add(-1)
	in := r.URL.Query().Get("in")
	control := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	last, err := s.state(r.Context(), in)
	if err != nil {
		fail(w, err)
		return
	}
	if last == "" && in != "" {
		http.Error(w, "there are no runs in that folder (any more): see the list at /", http.StatusNotFound)
		return
	}
	send := func(text string) bool {
		_, err := w.Write([]byte(text))
		return err == nil && control.Flush() == nil
	}
	// A reader who comes back after a break has missed events: the first one makes the page ask.
	if !send("retry: 2000\nevent: change\ndata: {}\n\n") {
		return
	}
	look := time.NewTicker(s.Every)
	defer look.Stop()
	quiet := time.Now()
	for {
		select {
		case <-r.Context().Done():
			return
		case <-look.C:
		}
		now, err := s.state(r.Context(), in)
		switch {
		case err != nil:
			return
		case now != last:
			last, quiet = now, time.Now()
			if !send("event: change\ndata: {}\n\n") {
				return
			}
		case time.Since(quiet) > keepAlive:
			quiet = time.Now()
			if !send(":\n\n") {
				return
			}
		}
	}
}

// state changes if any run does that is in a folder of the source; "" means any run at all.
func (s *Server) state(ctx context.Context, in string) (string, error) {
	dirs, _, err := s.source.Folders(ctx)
	if err != nil {
		return "", err
	}
	slices.Sort(dirs)
	var b strings.Builder
	for _, dir := range dirs {
		if in == "" || s.source.folder(dir) == in {
			b.WriteString(dir + "\n" + mark(dir))
		}
	}
	return b.String(), nil
}

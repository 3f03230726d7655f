// Package asking serves a model's answers as JSON over HTTP.
//
//	request -> queue (bounded) -> batches -> Asker -> response
//
// POST /ask takes {"question","passage"} and gives {"answer","probability"}. Questions that wait are answered together.
// When the queue is full a request is refused at once (503), so that nobody waits longer than the queue is long.
package asking

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"harness.invalid/harness/evaluation"
)

// Asker answers questions, one batch at a time.
type Asker interface {
	Ask(context.Context, []evaluation.Question) ([]evaluation.Answer, error)
}

// mostBytes is the size of a request, well above the longest passage.
const mostBytes = 1 << 20

// Server answers requests in batches.
type Server struct {
	asker Asker
	batch int
	queue chan *request
}

// request waits for its answer.
type request struct {
	ctx      context.Context
	question evaluation.Question
	answered chan answered // holds one
}

type answered struct {
	evaluation.Answer
	err error
}

// NewServer returns a server that answers up to batch questions at once, while up to queue more wait.
func NewServer(a Asker, batch, queue int) *Server {
	return &Server{asker: a, batch: batch, queue: make(chan *request, queue)}
}

// ServeHTTP is http.Handler's.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if ok && local.IP.IsLoopback() && !isLoopback(r.Host) {
		fail(w, http.StatusForbidden, errors.New("this server is for programs on this machine")) // a page elsewhere, by a name for it
		return
	}
	if r.URL.Path != "/ask" {
		fail(w, http.StatusNotFound, fmt.Errorf("there is no %s, want POST /ask", r.URL.Path))
		return
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		fail(w, http.StatusMethodNotAllowed, fmt.Errorf("method is %s, want POST", r.Method))
		return
	}
	q := &request{ctx: r.Context(), answered: make(chan answered, 1)}
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, mostBytes))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&q.question); err != nil {
		fail(w, http.StatusBadRequest, fmt.Errorf(`want {"question": "...", "passage": "..."}: %w`, err))
		return
	}
	if err := q.question.Check(); err != nil {
		fail(w, http.StatusBadRequest, err)
		return
	}
	select {
	case s.queue <- q:
	default:
		w.Header().Set("Retry-After", "1")
		fail(w, http.StatusServiceUnavailable, fmt.Errorf("%d questions wait already", cap(s.queue)))
		return
	}
	select {
	case <-r.Context().Done():
	case a := <-q.answered:
		if a.err != nil {
			fail(w, http.StatusInternalServerError, a.err)
			return
		}
		write(w, http.StatusOK, a.Answer)
	}
}

// Run answers what waits, until ctx ends.
func (s *Server) Run(ctx context.Context) {
	for {
		var batch []*request
		select {
		case <-ctx.Done():
			return
		case q := <-s.queue:
			batch = append(batch, q)
		}
		for more := true; more && len(batch) < s.batch; {
			select {
			case q := <-s.queue:
				batch = append(batch, q)
			default:
				more = false
			}
		}
		s.answer(ctx, batch)
	}
}

// answer answers the requests whose clients still wait.
func (s *Server) answer(ctx context.Context, batch []*request) {
	var waiting []*request
	var questions []evaluation.Question
	for _, q := range batch {
		if q.ctx.Err() == nil {
			waiting, questions = append(waiting, q), append(questions, q.question)
		}
	}
	if len(waiting) == 0 {
		return
	}
	answers, err := s.asker.Ask(ctx, questions)
	if err == nil && len(answers) != len(waiting) {
		err = fmt.Errorf("the model gave %d answers to %d questions", len(answers), len(waiting))
	}
	for i, q := range waiting {
		if err != nil {
			q.answered <- answered{err: err}
		} else {
			q.answered <- answered{Answer: answers[i]}
		}
	}
}

// Serve serves a listener until ctx ends.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server := &http.Server{
		Handler: s, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	worker := make(chan struct{})
	go func() { defer close(worker); s.Run(ctx) }()
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	err := server.Serve(listener)
	ended := ctx.Err() != nil
	cancel()
	<-worker
	if ended && errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// isLoopback reports whether a host, with or without a port, is this machine.
func isLoopback(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// CheckAddress is an error for an address that other machines could reach: there is no login.
func CheckAddress(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	if !isLoopback(host) {
		return fmt.Errorf("address %s can be reached from other machines, and there is no login: want localhost", address)
	}
	return nil
}

func fail(w http.ResponseWriter, status int, err error) {
	write(w, status, map[string]string{"error": err.Error()})
}

func write(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // a client that is gone reads nothing
}

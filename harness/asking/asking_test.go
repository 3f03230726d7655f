package asking_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"

	"harness.invalid/harness/asking"
	"harness.invalid/harness/evaluation"
)

// echo answers with the question, once it may.
type echo struct {
	may chan bool // false: an error

	lock    sync.Mutex
	batches []int
}

func (e *echo) Ask(_ context.Context, questions []evaluation.Question) ([]evaluation.Answer, error) {
	e.lock.Lock()
	e.batches = append(e.batches, len(questions))
	e.lock.Unlock()
	if !<-e.may {
		return nil, errors.New("the backend is gone")
	}
	var list []evaluation.Answer
	for _, q := range questions {
		list = append(list, evaluation.Answer{Answer: q.Question, Probability: 0.5})
	}
	return list, nil
}

func (e *echo) asked() int {
	e.lock.Lock()
	defer e.lock.Unlock()
	return len(e.batches)
}

// serve starts a server, whose address it returns. It is stopped with the test.
func serve(t *testing.T, e *echo, batch, queue int) (string, context.CancelFunc, chan error) {
	t.Helper()
	listener, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- asking.NewServer(e, batch, queue).Serve(ctx, listener) }()
	return "http://" + listener.Addr().String(), cancel, ended
}

// post returns the status and the decoded response.
func post(address, body string) (int, map[string]any, error) {
	r, err := http.Post(address+"/ask", "application/json", strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	defer r.Body.Close()
	var v map[string]any
	return r.StatusCode, v, json.NewDecoder(r.Body).Decode(&v)
}

// TestQueue: while one question is answered, as many as the queue holds wait, and the next one is refused. Those that
// wait are answered together.
func TestQueue(t *testing.T) {
	e := &echo{may: make(chan bool)}
	address, cancel, ended := serve(t, e, 8, 3)
	type response struct {
		status int
		body   map[string]any
		err    error
	}
	responses := make(chan response, 16)
	ask := func(i int) {
		status, body, err := post(address, fmt.Sprintf(`{"question": "q%d", "passage": "p"}`, i))
		responses <- response{status, body, err}
	}
	go ask(0)
	for e.asked() == 0 { // until it is being answered
		runtime.Gosched()
	}
	for i := 1; i <= 5; i++ {
		go ask(i)
	}
	for range 2 { // of those five, three wait
		r := <-responses
		if r.err != nil || r.status != http.StatusServiceUnavailable || !strings.Contains(fmt.Sprint(r.body), "3 questions wait") {
			t.Errorf("a question too many: %+v", r)
		}
	}
	e.may <- true
	e.may <- true
	seen := map[any]bool{}
	for range 4 {
		r := <-responses
		if r.err != nil || r.status != http.StatusOK || r.body["probability"] != 0.5 {
			t.Errorf("response is %+v", r)
		}
		seen[r.body["answer"]] = true
	}
	if len(seen) != 4 || !seen["q0"] || len(e.batches) != 2 || e.batches[1] != 3 {
		t.Errorf("answers %v in batches of %v, want four different ones, one and then three at once", seen, e.batches)
	}
	go ask(6)
	e.may <- false
	if r := <-responses; r.status != http.StatusInternalServerError || !strings.Contains(fmt.Sprint(r.body), "the backend is gone") {
		t.Errorf("a failure: %+v", r)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
}

func TestWrongRequests(t *testing.T) {
	address, cancel, ended := serve(t, &echo{}, 1, 1)
	for body, want := range map[string]string{
		"":                                  "want {",
		`{"question": "q"}`:                 "one of them is empty",
		`{"question": "q", "passage": " "}`: "one of them is empty",
		`{"question": 3, "passage": "p"}`:   "want {",
		`{"question": "q", "context": "p"}`: "unknown field",
		`"` + strings.Repeat("x", 2<<20):    "too large",
	} {
		status, v, err := post(address, body)
		if err != nil || status != http.StatusBadRequest || !strings.Contains(fmt.Sprint(v["error"]), want) {
			t.Errorf("%.40s: %d, %v, %v, want in it %q", body, status, v, err, want)
		}
	}
	for path, want := range map[string]int{"/ask": http.StatusMethodNotAllowed, "/": http.StatusNotFound} {
		r, err := http.Get(address + path)
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		if r.StatusCode != want {
			t.Errorf("GET %s: %d, want %d", path, r.StatusCode, want)
		}
	}
	body := strings.NewReader(`{"question": "q", "passage": "p"}`)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address+"/ask", body)
	if err != nil {
		t.Fatal(err)
	}
	request.Host = "elsewhere.example"
	r, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	if r.StatusCode != http.StatusForbidden {
		t.Errorf("by another name: %d, want %d", r.StatusCode, http.StatusForbidden)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestCheckAddress(t *testing.T) {
	for address, fine := range map[string]bool{
		"localhost:8080": true, "127.0.0.1:0": true, "[::1]:80": true, "0.0.0.0:80": false, ":80": false, "example.org:80": false,
		"localhost": false,
	} {
		if err := asking.CheckAddress(address); (err == nil) != fine {
			t.Errorf("%s: %v", address, err)
		}
	}
}

package load_test

import (
	"bufio"
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-gateway/sluice/cmd/bench/load"
	"github.com/sluice-gateway/sluice/cmd/bench/provider"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func serve(t *testing.T, dialect string, sc provider.Scenario) (*provider.Server, string) {
	t.Helper()
	s, err := provider.New(dialect)
	if err != nil {
		t.Fatal(err)
	}
	s.Play(sc)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	t.Cleanup(func() {
		ln.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return s, ln.Addr().String()
}

// eventTimeout is how long a test waits for an event. It only elapses in failing tests.
const eventTimeout = 20 * time.Second

// waitFor waits until a count satisfies a condition.
func waitFor(t *testing.T, r *load.Run, enough func(load.Count) bool) {
	t.Helper()
	for end := time.Now().Add(eventTimeout); !enough(r.Count()); {
		if time.Now().After(end) {
			t.Fatalf("condition not met within %v: %+v", eventTimeout, r.Count())
		}
		time.Sleep(time.Millisecond) // leave the CPU to the load
	}
}

func TestCountsResponsesAndEvents(t *testing.T) {
	for _, dialect := range []string{"openai", "anthropic"} {
		for name, c := range map[string]struct {
			scenario provider.Scenario
			prompt   int
		}{
			"non-streaming":         {provider.Scenario{}, 0},
			"non-streaming, 100 KB": {provider.Scenario{}, 100_000},
			"streams":               {provider.Scenario{Stream: true, Events: 70}, 0},
			"small writes":          {provider.Scenario{Stream: true, Events: 70, Block: 7}, 0},
			"large writes":          {provider.Scenario{Stream: true, Events: 400, Block: 16 << 10}, 0},
		} {
			t.Run(dialect+"/"+name, func(t *testing.T) {
				s, addr := serve(t, dialect, c.scenario)
				r := load.Start(load.Job{Credential: provider.Credential, Addr: addr, Connections: 4, Prompt: c.prompt, Model: "m", Dialect: dialect, Stream: c.scenario.Stream, Events: c.scenario.Events, Times: c.scenario.Stream})
				waitFor(t, r, func(n load.Count) bool { return n.Responses >= 20 || n.Failed > 0 })
				r.Finish()
				n := r.Wait()
				if n.Failed > 0 || n.Open != 0 {
					t.Fatalf("%+v", n)
				}
				if n.Events != s.Events() || n.Events != n.Responses*int64(c.scenario.Events) {
					t.Errorf("got %d responses and %d events; the provider wrote %d events", n.Responses, n.Events, s.Events())
				}
				if c.scenario.Stream && int64(len(n.First)) != n.Responses {
					t.Errorf("got %d times to the first event for %d responses", len(n.First), n.Responses)
				}
			})
		}
	}
}

func TestClosesHeldStreams(t *testing.T) {
	_, addr := serve(t, "openai", provider.Scenario{Stream: true, Hold: true})
	r := load.Start(load.Job{Credential: provider.Credential, Addr: addr, Connections: 200, Model: "m", Dialect: "openai", Stream: true, Hold: true})
	waitFor(t, r, func(n load.Count) bool { return n.Open == 200 || n.Failed > 0 })
	r.Finish()
	if n := r.Wait(); n.Failed > 0 || n.Open != 0 || n.Responses != 0 || n.Events != 200 {
		t.Errorf("%+v", n)
	}
}

// TestRejectsInvalidResponse checks that responses that a gateway must not send count as failures.
func TestRejectsInvalidResponse(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\n"
	const chunked = head + "Transfer-Encoding: chunked\r\n\r\n"
	for name, c := range map[string]struct {
		response, want string
		stream         bool
	}{
		"error status":             {"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\n{}", "503", false},
		"wrong text":               {head + "Content-Length: 2\r\n\r\n{}", "incomplete text", false},
		"not JSON":                 {head + "Content-Length: 26\r\n\r\n{" + provider.Closing, "not JSON", false},
		"truncated":                {head + "Content-Length: 100\r\n\r\n{}", "EOF", false},
		"no length":                {head + "\r\n{}", "without a length", false},
		"non-streaming":            {head + "Content-Length: 2\r\n\r\n{}", "instead of a stream", true},
		"no last event":            {chunked + "16\r\ndata: \"content\":\" a\"\n\n\r\n0\r\n\r\n", "last event", true},
		"truncated in a chunk":     {chunked + "15\r\ndata: ", "EOF", true},
		"truncated between chunks": {chunked + "e\r\ndata: [DONE]\n\n\r\n", "EOF", true},
		"missing event":            {chunked + "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n", "got 0 text events, want 1", true},
		"malformed chunk":          {chunked + "what\r\n", "chunk", true},
	} {
		t.Run(name, func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			done := make(chan struct{})
			go func() {
				defer close(done)
				conn, err := ln.Accept()
				if err != nil {
					return
				}
				defer conn.Close()
				if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
					conn.Write([]byte(c.response))
				}
			}()
			n := load.Start(load.Job{Credential: provider.Credential, Addr: ln.Addr().String(), Connections: 1, Model: "m", Dialect: "openai", Stream: c.stream, Events: 1}).Wait()
			<-done
			if n.Failed != 1 || !strings.Contains(n.Failure, c.want) || n.Responses != 0 {
				t.Errorf("%+v", n)
			}
		})
	}
}

// TestRequestSizes checks the prompt sizes in the names of cases.
func TestRequestSizes(t *testing.T) {
	for _, c := range []struct{ prompt, least, most int }{{0, 190, 210}, {100_000, 99_000, 102_000}} {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(string(load.Request(&load.Job{Prompt: c.prompt, Model: "m", Stream: true})))))
		if err != nil {
			t.Fatal(err)
		}
		var body struct {
			Model    string
			Stream   bool
			Messages []struct{ Role, Content string }
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Fatal(err)
		}
		size := 0
		for _, m := range body.Messages {
			size += len(m.Content)
		}
		if size < c.least || size > c.most || !body.Stream || body.Messages[len(body.Messages)-1].Role != "user" {
			t.Errorf("prompt of %d: %d bytes in %d messages", c.prompt, size, len(body.Messages))
		}
	}
}

// TestRequestsOfOtherAPIs checks the path, and the size and place of the conversation, in the other APIs.
func TestRequestsOfOtherAPIs(t *testing.T) {
	for api, want := range map[string]struct{ path, list string }{"messages": {"/v1/messages", "messages"}, "responses": {"/v1/responses", "input"}} {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(string(load.Request(&load.Job{API: api, Prompt: 110_000, Model: "m"})))))
		if err != nil {
			t.Fatal(err)
		}
		var body map[string]json.RawMessage
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Fatal(err)
		}
		list := string(body[want.list])
		if r.URL.Path != want.path || len(list) < 110_000 || (api == "messages") == strings.Contains(list, `"system"`) {
			t.Errorf("%s: path %s, %d bytes in %s", api, r.URL.Path, len(list), want.list)
		}
	}
}

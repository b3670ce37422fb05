package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/plugintest"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// predictions is a provider whose clients create a prediction and then ask for it. The prompt names what happens.
type predictions struct {
	t         *testing.T
	mu        sync.Mutex
	polls     map[string]int
	reached   chan string // receives an ID when a request is served that does not lead to the end
	cancelled chan string
}

func (p *predictions) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id, isCancel := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, "/v1/predictions/"), "/cancel")
	if r.Header.Get("Authorization") != "Bearer sk-upstream-canary" {
		p.t.Errorf("%s %s without the credential", r.Method, r.URL)
	}
	switch {
	case isCancel && r.Method == "POST":
		_, _ = io.WriteString(w, "{}")
		p.cancelled <- id
	case r.URL.Path == "/v1/predictions" && r.Method == "POST":
		var body struct {
			Input struct{ Messages []struct{ Content string } }
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			p.t.Error(err)
			return
		}
		id = body.Input.Messages[0].Content
		if id == "hang-create" {
			p.reached <- id
			<-r.Context().Done()
			return
		}
		answerPrediction(w, http.StatusCreated, `{"id":"`+id+`","status":"starting","output":null}`)
	case r.Method == "GET":
		p.poll(w, r, id)
	default:
		p.t.Errorf("unexpected %s %s", r.Method, r.URL)
	}
}

func (p *predictions) poll(w http.ResponseWriter, r *http.Request, id string) {
	p.mu.Lock()
	n := p.polls[id]
	p.polls[id]++
	p.mu.Unlock()
	const complete = `{"status":"succeeded","output":["Hel","lo"],"metrics":{"input_token_count":5,"output_token_count":7}}`
	switch {
	case id == "fails":
		answerPrediction(w, http.StatusOK, `{"status":"failed","error":"Out of memory.","output":null}`)
	case id == "gone":
		answerPrediction(w, http.StatusNotFound, `{}`)
	case id == "hiccup" && n == 0:
		answerPrediction(w, http.StatusBadGateway, `{}`)
	case id == "empty" && n == 0:
		w.WriteHeader(http.StatusNoContent)
	case id == "two" && n == 0:
		answerPrediction(w, http.StatusOK, `{"status":"processing","output":["Hel"]}`)
	case id == "two", id == "hiccup", id == "empty":
		answerPrediction(w, http.StatusOK, complete)
	case id == "hang-poll":
		p.reached <- id
		<-r.Context().Done()
	case id == "text-never" && n == 0:
		answerPrediction(w, http.StatusOK, `{"status":"processing","output":["Hel"]}`)
	case id == "text-never": // the text reaches the client before the next response
		<-r.Context().Done()
	default:
		answerPrediction(w, http.StatusOK, `{"status":"processing","output":[]}`)
		select {
		case p.reached <- id:
		default:
		}
	}
}

func answerPrediction(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

// pollingLanguages are the languages that the provider is written in, with its module.
func pollingLanguages(t *testing.T) map[string][]byte {
	t.Helper()
	modules := map[string][]byte{"Go": plugintest.Build(t, "./proxy/internal/testing/e2e/testdata/guests/poll")}
	clang, err := exec.LookPath("clang")
	if err != nil {
		t.Log("without C: there is no clang")
		return modules
	}
	out := filepath.Join(t.TempDir(), "poll.wasm")
	cmd := exec.CommandContext(t.Context(), clang, "--target=wasm32", "-ffreestanding", "-O2", "-Wall", "-Werror", "-nostdlib", "-Wl,--no-entry", "-I../../../../sdk/c",
		"-o", out, "testdata/guests/poll-c/plugin.c")
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	if modules["C"], err = os.ReadFile(out); err != nil {
		t.Fatal(err)
	}
	return modules
}

// eachPolling runs a test with the provider in each language, whole and streamed, under a strict budget.
func eachPolling(t *testing.T, timeout string, run func(t *testing.T, g *proxytest.Gateway, p *predictions, stream bool)) {
	for language, wasm := range pollingLanguages(t) {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s stream %t", language, stream), func(t *testing.T) {
				p := &predictions{t: t, polls: map[string]int{}, reached: make(chan string, 1), cancelled: make(chan string, 1)}
				server := httptest.NewServer(p)
				t.Cleanup(server.Close)
				g := proxytest.StartWith(t, "[[keys]]\nname = \"k\"\nsecret = \""+proxytest.Key+"\"\nmodels = [\"*\"]\n"+bothBudgets+"\n"+guestFile(t, "poll", "key", wasm)+fmt.Sprintf(`
[providers.a]
plugin   = "poll"
base_url = %q
auth     = { secret = "sk-upstream-canary" }
paths    = ["/v1/predictions", "/v1/predictions/*", "/v1/predictions/*/cancel"]
breaker  = { enabled = false }
timeout  = { total = %q }
[[models]]
id      = "m"
pricing = { input = 1, output = 10 }
max_tokens = 4096
retry   = { attempts = 1 }
targets = [{ provider = "a", model = "m" }]
`, server.URL, timeout), func(o *proxy.Options) { o.StateDir = t.TempDir() })
				run(t, g, p, stream)
			})
		}
	}
}

func pollRequest(id string, stream bool) string {
	return fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":%q}],"stream":%t,"stream_options":{"include_usage":true}}`, id, stream)
}

// TestPollingProvider checks a provider that creates a prediction and polls it: a client receives it like any other
// response, and it costs what the provider has counted.
//
// covers: C85
func TestPollingProvider(t *testing.T) {
	eachPolling(t, "1m", func(t *testing.T, g *proxytest.Gateway, _ *predictions, stream bool) {
		admin := g.Admin(t)
		var certain int64
		for _, id := range []string{"two", "hiccup", "empty"} {
			body := pollRequest(id, stream)
			if !stream {
				body = strings.Replace(body, `,"stream_options":{"include_usage":true}`, "", 1)
			}
			r := g.Chat(t, body)
			if r.Status != 200 || content(r.Body) != "Hello" || !strings.Contains(r.Body, `"completion_tokens":7`) {
				t.Errorf("%s: status %d: %s", id, r.Status, r.Body)
			}
			if certain += 5*1_000 + 7*10_000; readMoney(t, admin) != booked(certain, 0) {
				t.Errorf("%s: booked %+v, want %d", id, readMoney(t, admin), certain)
			}
		}
	})
}

// TestPollingProviderFails checks that a prediction that fails costs nothing, and that one which the provider no longer
// knows has unknown costs.
//
// covers: C85
func TestPollingProviderFails(t *testing.T) {
	eachPolling(t, "1m", func(t *testing.T, g *proxytest.Gateway, p *predictions, stream bool) {
		admin := g.Admin(t)
		body := strings.Replace(pollRequest("fails", stream), `,"stream_options":{"include_usage":true}`, "", 1)
		if r := g.Chat(t, body); r.Status < 500 || !strings.Contains(r.Body, "Out of memory.") {
			t.Errorf("a failed prediction: status %d: %s", r.Status, r.Body)
		}
		if m := readMoney(t, admin); m != booked(0, 0) {
			t.Errorf("a failed prediction: booked %+v", m)
		}
		if r := g.Chat(t, strings.Replace(body, "fails", "gone", 1)); r.Status < 500 {
			t.Errorf("an unknown prediction: status %d: %s", r.Status, r.Body)
		}
		if m := readMoney(t, admin); m.uncertain < 4096*10_000/16 || m != booked(0, m.uncertain) {
			t.Errorf("an unknown prediction: booked %+v", m)
		}
		select {
		case id := <-p.cancelled:
			if id != "gone" {
				t.Errorf("cancelled %s, which has failed", id)
			}
		default: // the request to cancel is sent on its own
		}
	})
}

// TestPollingClientLeaves checks for each stage that the prediction is cancelled when the client leaves, and is booked as
// unknown.
//
// covers: C86
func TestPollingClientLeaves(t *testing.T) {
	eachPolling(t, "1m", func(t *testing.T, g *proxytest.Gateway, p *predictions, stream bool) {
		admin := g.Admin(t)
		stages := []string{"hang-create", "hang-poll", "never"}
		if stream {
			stages = append(stages, "text-never")
		}
		for _, id := range stages {
			before := readMoney(t, admin)
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			r, err := http.NewRequestWithContext(ctx, "POST", g.URL+"/v1/chat/completions", strings.NewReader(strings.Replace(pollRequest(id, stream), `,"stream_options":{"include_usage":true}`, "", 1)))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer "+proxytest.Key)
			r.Header.Set("Content-Type", "application/json")
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				response, err := http.DefaultTransport.RoundTrip(r)
				if err != nil {
					return
				}
				defer response.Body.Close()
				if p := make([]byte, 512); id == "text-never" {
					n, _ := io.ReadAtLeast(response.Body, p, 1)
					if !strings.Contains(string(p[:n]), "Hel") {
						t.Errorf("the client received %s", p[:n])
					}
					leave()
				}
				_, _ = io.Copy(io.Discard, response.Body)
			}()
			if id != "text-never" {
				if got := <-p.reached; got != id {
					t.Fatalf("reached %s, want %s", got, id)
				}
				leave()
			}
			<-ended
			if id != "hang-create" {
				if got := <-p.cancelled; got != id {
					t.Errorf("cancelled %s, want %s", got, id)
				}
			}
			awaitReleased(t, admin)
			m := readMoney(t, admin)
			if used := m.uncertain - before.uncertain; used <= 0 || m.held-before.held != used+m.released-before.released || m.booked-before.booked != 1 {
				t.Errorf("%s: booked %+v after %+v", id, m, before)
			}
			select {
			case <-p.reached: // a poll that began before the client left
			default:
			}
		}
	})
}

// TestPollingNeverEnds checks that timeout.total bounds all requests of an attempt.
//
// covers: C87
func TestPollingNeverEnds(t *testing.T) {
	eachPolling(t, "2s", func(t *testing.T, g *proxytest.Gateway, p *predictions, stream bool) {
		admin := g.Admin(t)
		r := g.Chat(t, strings.Replace(pollRequest("never", stream), `,"stream_options":{"include_usage":true}`, "", 1))
		if r.Status != http.StatusGatewayTimeout {
			t.Errorf("status %d: %s", r.Status, r.Body)
		}
		if id := <-p.cancelled; id != "never" {
			t.Errorf("cancelled %s", id)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if n := p.polls["never"]; n < 1 || n > 20 {
			t.Errorf("%d polls within 2s with pauses of 100ms", n)
		}
		if m := readMoney(t, admin); m.uncertain <= 0 || m != booked(0, m.uncertain) {
			t.Errorf("booked %+v", m)
		}
	})
}

package identity_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/access"
	"github.com/sluice-gateway/sluice/proxy/internal/identity"
)

// service is an authorization service.
type service struct {
	*identity.Authorizer
	url   string
	key   *access.Key
	clock time.Time

	mu      sync.Mutex
	asked   []string // bodies
	respond func(w http.ResponseWriter)
}

// startService starts a service that responds with a text.
func startService(t *testing.T, onFailure, text string) *service {
	t.Helper()
	s := &service{clock: time.Now(), respond: func(w http.ResponseWriter) { _, _ = io.WriteString(w, text) }}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.asked = append(s.asked, r.Method+" "+string(body))
		respond := s.respond
		s.mu.Unlock()
		respond(w)
	}))
	t.Cleanup(server.Close)
	s.url = server.URL
	toml := fmt.Sprintf("[authorization]\nurl = %q\non_failure = %q\ntimeout = \"10s\"\n[[teams]]\nname = \"red\"\n[[teams]]\nname = \"blue\"\n[[keys]]\nname = \"k\"\nteam = \"red\"\ntags = { plan = \"free\" }\nsecret = \"sk-0123456789abcdef\"\n", server.URL, onFailure)
	cfg, err := config.Parse("gateway.toml", []byte(toml), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s.Authorizer = identity.NewAuthorizer(cfg, slog.New(slog.DiscardHandler), func() time.Time { return s.clock })
	t.Cleanup(s.Close)
	if s.key, err = access.New(cfg.Keys, nil).Named("k", s.clock); err != nil {
		t.Fatal(err)
	}
	return s
}

// ask asks about a request for a model, and returns the key's team and tags and the name of the person, or the error.
func (s *service) ask(model string) string {
	key, name, e := s.Authorize(s.key, identity.Question{Method: "POST", Path: "/v1/x", Model: model, Principal: s.key.Name()}, s.clock)
	if e != nil {
		return fmt.Sprint(e.Status, " ", e.Code)
	}
	return strings.Join([]string{key.Name(), key.Team(), key.TagText(), name}, "/")
}

// TestVerdicts is the table of what a service may respond with.
func TestVerdicts(t *testing.T) {
	const unavailable, denied = "503 authorization_unavailable", "403 authorization_denied"
	for _, c := range []struct{ text, want string }{
		{`{"allow":true}`, "k/red/plan=free/"},
		{`{"allow":true,"team":"blue","tags":{"plan":"gold"},"name":"ann","ttl":60,"more":[]}`, "k/blue/plan=gold/ann"},
		{`{"allow":false}`, denied},
		{`{"allow":true,"team":"green"}`, denied},
		{`{}`, unavailable},
		{`{"allow":"true"}`, unavailable},
		{`{"allow":false,"allow":true}`, unavailable},
		{`{"allow":true,"team":7}`, unavailable},
		{`{"allow":true,"name":"a\nb"}`, unavailable},
		{`{"allow":true,"tags":["a"]}`, unavailable},
		{`{"allow":true,"tags":{"a b":"c"}}`, unavailable},
		{`{"allow":true,"ttl":-1}`, unavailable},
		{`{"allow":true,"ttl":"1"}`, unavailable},
		{`[true]`, unavailable},
		{`{"allow":true,"x":"` + strings.Repeat("x", 16<<10) + `"}`, unavailable},
		{``, unavailable},
	} {
		s := startService(t, "deny", c.text)
		if got := s.ask("m"); got != c.want {
			t.Errorf("%.60s: got %s, want %s", c.text, got, c.want)
		}
		if want := `POST {"method":"POST","path":"/v1/x","model":"m","principal":"k"}`; len(s.asked) != 1 || s.asked[0] != want {
			t.Errorf("the service was asked %q", s.asked)
		}
	}
}

// TestServiceFails checks on_failure, for a status and for a service that does not respond in time.
func TestServiceFails(t *testing.T) {
	for onFailure, want := range map[string]string{"deny": "503 authorization_unavailable", "allow": "k/red/plan=free/"} {
		s := startService(t, onFailure, "")
		s.respond = func(w http.ResponseWriter) { w.WriteHeader(500) }
		if got := s.ask("m"); got != want {
			t.Errorf("%s: got %s, want %s", onFailure, got, want)
		}
		blocked := make(chan struct{})
		silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-blocked }))
		cfg, err := config.Parse("gateway.toml", fmt.Appendf(nil, "[authorization]\nurl = %q\non_failure = %q\ntimeout = \"10ms\"\n[[keys]]\nname = \"k\"\nsecret = \"sk-0123456789abcdef\"\n", silent.URL, onFailure), config.Options{})
		if err != nil {
			t.Fatal(err)
		}
		a := identity.NewAuthorizer(cfg, slog.New(slog.DiscardHandler), time.Now)
		if _, _, e := a.Authorize(s.key, identity.Question{}, time.Now()); (e == nil) != (onFailure == "allow") || e != nil && e.Code != "authorization_unavailable" {
			t.Errorf("%s, silent: %v", onFailure, e)
		}
		close(blocked)
		a.Close()
		silent.Close()
	}
}

// TestVerdictsAreCached checks that a verdict counts for its ttl, and only for the same question.
func TestVerdictsAreCached(t *testing.T) {
	s := startService(t, "deny", `{"allow":true,"ttl":60}`)
	expectAsked := func(what string, n int) {
		t.Helper()
		if len(s.asked) != n {
			t.Errorf("%s: asked %d times, want %d", what, len(s.asked), n)
		}
	}
	s.ask("m")
	s.ask("m")
	expectAsked("twice", 1)
	s.ask("n")
	expectAsked("another model", 2)
	s.clock = s.clock.Add(time.Minute)
	s.ask("m")
	expectAsked("after the ttl", 3)
	s = startService(t, "deny", `{"allow":true}`)
	s.ask("m")
	s.ask("m")
	expectAsked("without a ttl", 2)
}

// TestEqualQuestionsAreAskedOnce checks that requests which arrive while the same question is in flight share its verdict.
func TestEqualQuestionsAreAskedOnce(t *testing.T) {
	s := startService(t, "deny", "")
	arrived, proceed := make(chan struct{}, 16), make(chan struct{})
	s.respond = func(w http.ResponseWriter) {
		arrived <- struct{}{}
		<-proceed
		_, _ = io.WriteString(w, `{"allow":true,"ttl":60}`)
	}
	var good atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if s.ask("m") == "k/red/plan=free/" {
				good.Add(1)
			}
		})
	}
	<-arrived
	close(proceed)
	all.Wait()
	if len(s.asked) != 1 || good.Load() != 8 {
		t.Errorf("asked %d times, %d good verdicts", len(s.asked), good.Load())
	}
}

package plugin_test

import (
	"fmt"
	"net/url"
	gopath "path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// settingsGuest is a guest that responds to each event with the settings of the event's binding, and logs each call of
// sluice_configure.
type settingsGuest struct {
	native
	log      *[]string
	settings map[int32]string
}

func (s *settingsGuest) Configure(binding int32, settings []byte) int32 {
	*s.log = append(*s.log, fmt.Sprintf("%d %s", binding, settings))
	s.settings[binding] = string(settings)
	return 0
}

func (s *settingsGuest) Event(binding int32, _ abi.EventKind, _, data []byte) int32 {
	if string(data) == "x" {
		panic("asked to")
	}
	s.host.Text(0, 0, []byte(s.settings[binding]))
	return 0
}

// covers: C26
func TestBindingSettingsOnEveryInstance(t *testing.T) {
	var log []string
	h := newHost(t, plugin.Options{Instances: 1})
	g, err := h.LoadNative("native", func(host abi.Host) plugin.Guest {
		return &settingsGuest{native{host: host, event: func(abi.Host, abi.EventKind, []byte, []byte) int32 { return 0 }}, &log, map[int32]string{}}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	p := g.Plugin("native")
	eu := bind(t, p, plugin.BindingConfig{Name: "eu", Settings: b(`{"region":"eu"}`)})
	us := bind(t, p, plugin.BindingConfig{Name: "us"})
	event := func(bound *plugin.Binding, want string) {
		t.Helper()
		a := newAttempt(t, body)
		if err := bound.Event(t.Context(), a, abi.EventPlain, nil, nil); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(output(a), want) {
			t.Errorf("output %s, want %s", output(a), want)
		}
	}
	event(eu, `"content":"{\"region\":\"eu\"}"`)
	event(us, `"content":"{}"`)
	event(eu, `"content":"{\"region\":\"eu\"}"`)
	wantCallError(t, us.Event(t.Context(), newAttempt(t, body), abi.EventPlain, nil, b("x")), plugin.KindTrap)
	event(eu, `"content":"{\"region\":\"eu\"}"`)

	// Once for each instance and binding: the first instance, the instance of the retry, which failed as well, and the
	// instance that replaced it.
	want := []string{`0 {"region":"eu"}`, "1 {}", "1 {}", "1 {}", `0 {"region":"eu"}`}
	if !slices.Equal(log, want) {
		t.Errorf("configured %q, want %q", log, want)
	}
}

func TestNativePanicIsACallError(t *testing.T) {
	bound := bindNative(t, native{event: func(abi.Host, abi.EventKind, []byte, []byte) int32 { panic("a bug") }}, plugin.BindingConfig{})
	e := wantCallError(t, bound.Event(t.Context(), newAttempt(t, body), abi.EventPlain, nil, nil), plugin.KindTrap)
	if !strings.Contains(e.Error(), "panic: a bug") || !strings.Contains(e.Error(), "binding_test.go") {
		t.Errorf("error %v, want the panic and its file", e)
	}
}

// covers: C46
func TestRequestPath(t *testing.T) {
	patterns := []string{"/v1/messages", "/v1beta/models/*:generateContent", "/model/*/converse-stream", "/files/v*-*.json"}
	tests := []struct {
		path string
		ok   bool
	}{
		{"/v1/messages", true},
		{"/v1/messages?beta=true&x", true},
		{"/v1/messages?", true},
		{"/v1beta/models/gemini-2.5-pro:generateContent?alt=sse", true},
		{"/v1beta/models/a:generateContent:generateContent", true},
		{"/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A123%3Ainference-profile%2Fx.y%3A0/converse-stream", true},
		{"/model/a:b/converse-stream", true},
		{"/files/v1-2.json", true},
		{"/files/v1-2-3.json", true},
		{"/v1/messages/", false},
		{"/v1/messages/x", false},
		{"/v1/message", false},
		{"/V1/messages", false},
		{"/v1/%6dessages", false},
		{"/v1beta/models/:generateContent", false},
		{"/v1beta/models/a/b:generateContent", false},
		{"/v1beta/models/a:generateContentX", false},
		{"/model//converse-stream", false},
		{"/model/../converse-stream", false},
		{"/model/%2e%2E/converse-stream", false},
		{"/model/./converse-stream", false},
		{"/model/%2e/converse-stream", false},
		{"/model/a%2f..%2fb/converse-stream", false},
		{"/model/..%2fb/converse-stream", false},
		{"/model/a%2f%2fb/converse-stream", false},
		{"/model/%2f/converse-stream", false},
		{"/model/a%5c..%5cb/converse-stream", false},
		{"/model/a%00/converse-stream", false},
		{"/model/a%0d%0a/converse-stream", false},
		{"/model/a%7f/converse-stream", false},
		{"/model/a%/converse-stream", false},
		{"/model/a%2/converse-stream", false},
		{"/model/a%zz/converse-stream", false},
		{`/model/a\b/converse-stream`, false},
		{"/model/a b/converse-stream", false},
		{"/model/a\tb/converse-stream", false},
		{"/model/a\x00b/converse-stream", false},
		{"/model/\u00e4/converse-stream", false},
		{"/model/a#/converse-stream", false},
		{"/model/a\"b/converse-stream", false},
		{"/model/{a}/converse-stream", false},
		{"/v1/messages?a[]=1", false},
		{"/v1/messages#", false},
		{"/v1/messages?a#b", false},
		{"/v1/messages?a b", false},
		{"/v1/messages?a=%", false},
		{"/v1/messages?%zz", false},
		{"/v1/messages?key=x", false},
		{"/v1/messages?a=1&key=x", false},
		{"/v1/messages?a=1;key=x", false},
		{"/v1/messages?%6bey=x", false},
		{"/v1/messages?KEY", false},
		{"/v1/messages?a=key", true},
		{"/v1/messages?keys=x", true},
		{"", false},
		{"/", false},
		{"//", false},
		{"//evil.example/v1/messages", false},
		{"v1/messages", false},
		{"https://evil.example/v1/messages", false},
		{"?x", false},
	}
	bound := bindNative(t, native{request: func(h abi.Host, _ []byte) int32 {
		for _, tt := range tests {
			status := abi.StatusRefused
			if tt.ok {
				status = abi.StatusOK
			}
			want(t, tt.path, h.RequestPath(b(tt.path)), status)
		}
		want(t, "a long path", h.RequestPath(b("/v1/messages?"+strings.Repeat("x", 4096))), abi.StatusTooLarge)
		return 0
	}}, plugin.BindingConfig{Paths: patterns, CredentialQuery: "key"})
	a := newAttempt(t, body)
	if err := bound.Request(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if a.Out.Path != "/v1/messages?keys=x" {
		t.Errorf("path %q, want the last accepted one", a.Out.Path)
	}
}

// FuzzRequestPath checks that an accepted path stays below the provider's base if a server decodes it once, and is
// valid in a request line.
func FuzzRequestPath(f *testing.F) {
	for _, s := range []string{"/v1/a", "/v1/a%2fb?x=1", "/v1/%2e%2e", "/v1/..", "/v1/a?key=1", "/v1/a?k%65y", "/v1/%", "/v1/\x00", "//", "/v1/a;key=1"} {
		f.Add(s)
	}
	var mu sync.Mutex
	var path string
	var status abi.Status
	bound := bind(f, loadNative(f, newFixedClockHost(f), native{request: func(h abi.Host, _ []byte) int32 {
		status = h.RequestPath([]byte(path))
		return 1
	}}), plugin.BindingConfig{Paths: []string{"/v1/*"}, CredentialQuery: "key"})
	f.Fuzz(func(t *testing.T, s string) {
		mu.Lock()
		defer mu.Unlock()
		path = s
		kind := plugin.KindStatus
		err := bound.Request(t.Context(), newAttempt(t, body))
		if status != abi.StatusOK {
			kind = plugin.KindProtocol
		}
		wantCallError(t, err, kind)
		if status != abi.StatusOK {
			return
		}
		if strings.ContainsAny(s, " \t\r\n\x00\\#") || !strings.HasPrefix(s, "/v1/") {
			t.Fatalf("accepted %q", s)
		}
		u, err := url.ParseRequestURI(s)
		if err != nil {
			t.Fatalf("accepted %q: %v", s, err)
		}
		if strings.Count(u.EscapedPath(), "/") != 2 || slices.ContainsFunc(strings.Split(u.Path[1:], "/"), func(seg string) bool {
			return seg == "" || seg == "." || seg == ".."
		}) {
			t.Fatalf("accepted %q, which is decoded to %q", s, u.Path)
		}
		if clean := gopath.Clean(u.Path); clean != u.Path {
			t.Fatalf("accepted %q, which is cleaned to %q", s, clean)
		}
		for name := range u.Query() {
			if strings.EqualFold(name, "key") {
				t.Fatalf("accepted %q, which sets the credential's parameter", s)
			}
		}
	})
}

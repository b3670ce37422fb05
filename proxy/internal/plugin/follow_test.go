package plugin_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// polled returns an attempt whose plugin has answered a response by these imports, and the call's error.
func polled(t *testing.T, status int, respond func(h abi.Host)) (*plugin.Attempt, error) {
	t.Helper()
	bound := bindNative(t, native{response: func(h abi.Host, _ int32, _ []byte) int32 { respond(h); return 0 }},
		plugin.BindingConfig{Paths: []string{"/v1/jobs/*"}, CredentialQuery: "key"})
	a := newAttempt(t, body)
	return a, bound.Response(t.Context(), a, status, b("{}"))
}

// TestFollowUp checks which further requests the host accepts.
//
// covers: C84
func TestFollowUp(t *testing.T) {
	const path = "/v1/jobs/1"
	for _, c := range []struct {
		name       string
		method     abi.Method
		path, body string
		pause      int32
		status     abi.Status // of next_request
		cancel     abi.Status // of cancel_request
	}{
		{"GET", abi.MethodGet, path, "", 100, abi.StatusOK, abi.StatusOK},
		{"POST with a body", abi.MethodPost, path + "?x=1", `{"a":[1]}`, 10_000, abi.StatusOK, abi.StatusOK},
		{"DELETE", abi.MethodDelete, path, "", 100, abi.StatusOK, abi.StatusOK},
		{"an unknown method", 3, path, "", 100, abi.StatusUnknown, abi.StatusUnknown},
		{"a negative method", -1, path, "", 100, abi.StatusUnknown, abi.StatusUnknown},
		{"GET with a body", abi.MethodGet, path, "{}", 100, abi.StatusRefused, abi.StatusRefused},
		{"a body that is not JSON", abi.MethodPost, path, "{", 100, abi.StatusRefused, abi.StatusRefused},
		{"another path", abi.MethodGet, "/v1/models", "", 100, abi.StatusRefused, abi.StatusRefused},
		{"a parent directory", abi.MethodGet, "/v1/jobs/..%2f", "", 100, abi.StatusRefused, abi.StatusRefused},
		{"another host", abi.MethodGet, "https://example.com/v1/jobs/1", "", 100, abi.StatusRefused, abi.StatusRefused},
		{"the credential", abi.MethodGet, path + "?key=x", "", 100, abi.StatusRefused, abi.StatusRefused},
		{"a long path", abi.MethodGet, "/v1/jobs/" + strings.Repeat("x", 5000), "", 100, abi.StatusTooLarge, abi.StatusTooLarge},
		{"a short pause", abi.MethodGet, path, "", 99, abi.StatusRefused, abi.StatusOK},
		{"a long pause", abi.MethodGet, path, "", 10_001, abi.StatusRefused, abi.StatusOK},
	} {
		var status, cancel abi.Status
		a, err := polled(t, 200, func(h abi.Host) {
			status = h.NextRequest(c.method, b(c.path), b(c.body), c.pause)
			cancel = h.CancelRequest(c.method, b(c.path), b(c.body))
		})
		if err != nil || status != c.status || cancel != c.cancel {
			t.Errorf("%s: %d and %d, %v, want %d and %d", c.name, status, cancel, err, c.status, c.cancel)
		}
		want := plugin.FollowUp{}
		if c.status == abi.StatusOK {
			want = plugin.FollowUp{Method: c.name[:strings.IndexByte(c.name+" ", ' ')], Path: c.path, Pause: time.Duration(c.pause) * time.Millisecond}
			if c.body != "" {
				want.Body = b(c.body)
			}
		}
		if diff := cmp.Diff(want, a.Next); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
		if (a.Cancel.Path != "") != (c.cancel == abi.StatusOK) {
			t.Errorf("%s: to cancel: %+v", c.name, a.Cancel)
		}
		if ignored := c.status != abi.StatusOK || c.cancel != abi.StatusOK; (len(a.Mistakes) > 0) != ignored {
			t.Errorf("%s: mistakes %q", c.name, a.Mistakes)
		}
	}
}

// TestFollowUpSentences tests what the contract says about further requests, and checks that it contains the sentences.
//
// covers: C84
func TestFollowUpSentences(t *testing.T) {
	page := contract(t)
	next := func(h abi.Host) abi.Status { return h.NextRequest(abi.MethodGet, b("/v1/jobs/1"), nil, 100) }
	for sentence, test := range map[string]func(t *testing.T){
		"After `done` and `fail` it has no effect.": func(t *testing.T) {
			for _, end := range []func(h abi.Host){func(h abi.Host) { h.Done(abi.DoneNow) }, func(h abi.Host) { h.Fail(abi.FailServer, nil, nil, nil, -1) }} {
				if a, _ := polled(t, 200, func(h abi.Host) { next(h); end(h) }); a.Next.Path != "" {
					t.Errorf("next: %+v", a.Next)
				}
			}
		},
		"The last accepted call counts.": func(t *testing.T) {
			a, _ := polled(t, 200, func(h abi.Host) {
				next(h)
				h.NextRequest(abi.MethodGet, b("/v1/jobs/2"), nil, 200)
				h.NextRequest(abi.MethodGet, b("/v1/other"), nil, 300)
			})
			if a.Next.Path != "/v1/jobs/2" || a.Next.Pause != 200*time.Millisecond {
				t.Errorf("next: %+v", a.Next)
			}
		},
		"in the response with an error to the first request": func(t *testing.T) {
			for status, want := range map[int]abi.Status{299: abi.StatusOK, 300: abi.StatusRefused, 503: abi.StatusRefused} {
				var got abi.Status
				polled(t, status, func(h abi.Host) { got = next(h) })
				if got != want {
					t.Errorf("status %d: %d, want %d", status, got, want)
				}
			}
		},
		"an empty path takes it back": func(t *testing.T) {
			a, _ := polled(t, 200, func(h abi.Host) {
				h.CancelRequest(abi.MethodPost, b("/v1/jobs/1"), nil)
				h.CancelRequest(abi.MethodPost, nil, nil)
			})
			if a.Cancel.Path != "" {
				t.Errorf("to cancel: %+v", a.Cancel)
			}
		},
		"-3 if the attempt has made 120 requests": func(t *testing.T) {
			var status abi.Status
			bound := bindNative(t, native{response: func(h abi.Host, _ int32, _ []byte) int32 { status = next(h); return 0 }}, plugin.BindingConfig{Paths: []string{"/v1/jobs/*"}})
			a := newAttempt(t, body)
			for n := 2; n <= abi.MaxRequests+1; n++ {
				a.Next = plugin.FollowUp{}
				if err := bound.Response(t.Context(), a, 500-300*(1-min(n-2, 1)), b("{}")); err != nil {
					t.Fatal(err)
				}
				if want := n <= abi.MaxRequests; (status == abi.StatusOK) != want || !want && status != abi.StatusTooLarge || (a.Next.Path != "") != want {
					t.Fatalf("request %d: %d", n, status)
				}
			}
		},
		"in `provider_response` or `provider_end`": func(t *testing.T) {
			_, err := streamed(t, func(h abi.Host) { next(h) })
			if e := wantCallError(t, err, plugin.KindProtocol); !strings.Contains(e.Error(), "next_request: not allowed in provider_event") {
				t.Error(e)
			}
		},
	} {
		if !strings.Contains(page, sentence) {
			t.Errorf("the contract lacks %q", sentence)
		}
		t.Run(sentence, test)
	}
}

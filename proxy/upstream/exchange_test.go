package upstream_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gateway/sluice/proxy/upstream/upstreamtest"
)

func TestRequestAsTheProviderSeesIt(t *testing.T) {
	t.Parallel()
	s := upstreamtest.New(t, upstreamtest.Script{upstreamtest.Loop(
		upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json", `{"ok":true}`),
	)})
	c := newClient(t, s, nil)
	status, body, err := whole(t, c, post(`{"model":"m"}`))
	if err != nil || status != 200 || body != `{"ok":true}` {
		t.Fatalf("%d %q %v", status, body, err)
	}
	want := "POST /v1/chat/completions HTTP/1.1\r\nUser-Agent: sluice\r\nHost: " + s.Addr() +
		"\r\nContent-Type: application/json\r\nContent-Length: 13\r\nAccept: application/json\r\nAccept-Encoding: identity\r\nAuthorization: Bearer sk-canary-0123456789"
	got := s.Requests()
	if len(got) != 1 {
		t.Fatalf("%d requests", len(got))
	}
	if d := cmp.Diff(want, got[0].Head); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if string(got[0].Body) != `{"model":"m"}` {
		t.Errorf("body %q", got[0].Body)
	}
}

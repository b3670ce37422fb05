package proxy_test

import (
	"io"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/upstream/upstreamtest"
)

// TestFaults23_PipelinedRequests are answered in their order, and a later one that is slow does not hold up the answer to
// an earlier one.
func TestFaults23_PipelinedRequests(t *testing.T) {
	proceed := make(chan struct{})
	provider := upstreamtest.New(t, upstreamtest.Script{
		upstreamtest.ReadRequest(), upstreamtest.Wait(proceed), upstreamtest.EventStream(), upstreamtest.Chunk(text("second"), finish, "data: [DONE]\n\n"), upstreamtest.LastChunk(),
	})
	g := proxytest.Start(t, configuration(provider.URL(), ""))
	c := dial(t, g)
	request := func(id, body string) string {
		return "POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer " + proxytest.Key + "\r\nX-Request-Id: " + id +
			"\r\nTransfer-Encoding: chunked\r\n\r\n" + chunksOf(body) + "0\r\n\r\n"
	}
	c.send(request("one", hello) + request("two", askStream) + request("three", hello) + "GARBAGE\r\n\r\n")
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	first := c.readUntil("}}")
	if i := strings.Index(first, "HTTP/1.1 200"); i < 0 || !strings.Contains(first, "X-Request-Id: one\r\n") || strings.Contains(first, "X-Request-Id: two") {
		t.Errorf("got %s", first)
	}
	close(proceed)
	rest, err := io.ReadAll(c.r)
	if err != nil {
		t.Fatal(err)
	}
	two, three := strings.Index(string(rest), "X-Request-Id: two\r\n"), strings.Index(string(rest), "X-Request-Id: three\r\n")
	if two < 0 || three < two || content(string(rest[two:three])) != "second" || !strings.HasSuffix(string(rest), `"code":"bad_request"}}`) {
		t.Errorf("got %s", rest)
	}
	for _, id := range []string{"one", "two", "three"} {
		if line := g.Log.Request(t, id); line["status"] != "200" || line["complete"] != "true" {
			t.Errorf("accounted as %v", line)
		}
	}
}

// chunksOf writes a body as two chunks, the second with an extension.
func chunksOf(body string) string {
	const hex = "0123456789abcdef"
	n := len(body) - 5
	return "5\r\n" + body[:5] + "\r\n" + string([]byte{hex[n>>4&15], hex[n&15]}) + ";x=y\r\n" + body[5:] + "\r\n"
}

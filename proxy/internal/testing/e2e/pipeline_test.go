package e2e_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// TestPipelinedRequests checks that pipelined requests get their responses in order, and that a slow request does not
// delay the response to an earlier one.
//
// covers: F23
func TestPipelinedRequests(t *testing.T) {
	proceed := make(chan struct{})
	provider := upstreamtest.New(t, upstreamtest.Script{
		upstreamtest.ReadRequest(), upstreamtest.Wait(proceed), upstreamtest.EventStream(), upstreamtest.Chunk(text("second"), finish, "data: [DONE]\n\n"), upstreamtest.LastChunk(),
	})
	g := proxytest.Start(t, configuration(provider.URL(), ""))
	c := dial(t, g)
	request := func(id, body string) string {
		return "POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer " + proxytest.Key + "\r\nX-Request-Id: " + id +
			"\r\nTransfer-Encoding: chunked\r\n\r\n" + encodeChunks(body) + "0\r\n\r\n"
	}
	c.send(request("one", hello) + request("two", askStream) + request("three", hello) + "GARBAGE\r\n\r\n")
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	first := c.readUntil("}}")
	if i := strings.Index(first, "HTTP/1.1 200"); i < 0 || !strings.Contains(first, "X-Request-Id: one\r\n") || strings.Contains(first, "X-Request-Id: two") {
		t.Errorf("got %s, want only the response to request one", first)
	}
	close(proceed)
	rest, err := io.ReadAll(c.r)
	if err != nil {
		t.Fatal(err)
	}
	two, three := strings.Index(string(rest), "X-Request-Id: two\r\n"), strings.Index(string(rest), "X-Request-Id: three\r\n")
	if two < 0 || three < two || content(string(rest[two:three])) != "second" || !strings.HasSuffix(string(rest), `"code":"bad_request"}}`) {
		t.Errorf("got %s, want the responses to two and three and an error", rest)
	}
	for _, id := range []string{"one", "two", "three"} {
		if line := g.Log.Request(t, id); line["status"] != "200" || line["complete"] != "true" {
			t.Errorf("logged %v, want status 200 and complete=true", line)
		}
	}
}

// encodeChunks encodes a body as two chunks, the second with an extension.
func encodeChunks(body string) string {
	const hex = "0123456789abcdef"
	n := len(body) - 5
	return "5\r\n" + body[:5] + "\r\n" + string([]byte{hex[n>>4&15], hex[n&15]}) + ";x=y\r\n" + body[5:] + "\r\n"
}

// TestTwoRequestsInOneSegment sends a streaming and a non-streaming request in one write, with and without TLS, and
// checks that the responses come in order.
//
// covers: F23
func TestTwoRequestsInOneSegment(t *testing.T) {
	withAndWithoutTLS(t, func(t *testing.T, table string) {
		g := proxytest.Start(t, configuration("", "")+table)
		stream := strings.Replace(hello, "}]}", `}],"stream":true}`, 1)
		c := dial(t, g)
		c.send(strings.Replace(postHead, "\r\n", "\r\nX-Request-Id: first\r\n", 1) + sized(stream) +
			strings.Replace(postHead, "\r\n", "\r\nX-Request-Id: second\r\n", 1) + sized(hello))
		first := c.readUntil("0\r\n\r\n")
		if !strings.Contains(first, "X-Request-Id: first\r\n") || strings.Contains(first, "second") || !strings.Contains(first, "[DONE]") {
			t.Errorf("first response %s", first)
		}
		second := c.readUntil("}}")
		if !strings.HasPrefix(second, "HTTP/1.1 200") || !strings.Contains(second, "X-Request-Id: second\r\n") {
			t.Errorf("second response %s", second)
		}
	})
}

// TestConnectionReuse uses one connection for streams, non-streaming responses and errors.
//
// covers: F24
func TestConnectionReuse(t *testing.T) {
	withAndWithoutTLS(t, func(t *testing.T, table string) {
		g := proxytest.Start(t, configuration("", "")+table)
		c := dial(t, g)
		for i := range 3 {
			c.post(fmt.Sprint("stream-", i), strings.Replace(hello, "}]}", `}],"stream":true}`, 1))
			if got := c.readUntil("0\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 200") || !strings.Contains(got, "[DONE]") {
				t.Fatalf("stream %d: %s", i, got)
			}
			c.post(fmt.Sprint("whole-", i), hello)
			if got := c.readUntil("}}"); !strings.HasPrefix(got, "HTTP/1.1 200") || !strings.Contains(got, fmt.Sprintf("X-Request-Id: whole-%d\r\n", i)) {
				t.Fatalf("non-streaming response %d: %s", i, got)
			}
			c.post(fmt.Sprint("rejected-", i), `{"model":"nobody","messages":[{"role":"user","content":"x"}]}`)
			if got := c.readUntil("}}"); !strings.HasPrefix(got, "HTTP/1.1 404") {
				t.Fatalf("error %d: %s", i, got)
			}
		}
	})
}

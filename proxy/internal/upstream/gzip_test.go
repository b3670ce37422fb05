package upstream_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// compress compresses the pieces with a flush after each, as a stream does.
func compress(tb testing.TB, pieces ...string) string {
	tb.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	for _, p := range pieces {
		if _, err := io.WriteString(z, p); err != nil {
			tb.Fatal(err)
		}
		if err := z.Flush(); err != nil {
			tb.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		tb.Fatal(err)
	}
	return b.String()
}

func encodeChunk(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }

// covers: S22
func TestGzipIsDecoded(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("hello, ", 5000)
	z := compress(t, text[:100], text[100:])
	for _, tt := range []struct {
		name string
		head string
		body string
		kind upstream.ErrorKind
		want string
	}{
		{"length", fmt.Sprintf("Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n", len(z)), z, 0, text},
		{"chunks", "Content-Encoding: GZIP\r\nTransfer-Encoding: chunked\r\n\r\n", encodeChunk(z[:7]) + encodeChunk(z[7:]) + "0\r\n\r\n", 0, text},
		{"two members", "Content-Encoding: x-gzip\r\nTransfer-Encoding: chunked\r\n\r\n", encodeChunk(z) + encodeChunk(z) + "0\r\n\r\n", 0, text + text},
		{"empty body", "Content-Encoding: gzip\r\nContent-Length: 0\r\n\r\n", "", 0, ""},
		{"identity", "Content-Encoding: identity\r\nContent-Length: 5\r\n\r\n", "hello", 0, "hello"},
		// covers: F54
		{"not gzip", "Content-Encoding: gzip\r\nContent-Length: 20\r\n\r\n", `{"choices":[{}]}    `, upstream.InvalidResponse, ""},
		{"corrupt", "Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n", encodeChunk(z[:30]+"xxxxxxxxxxx") + "0\r\n\r\n", upstream.InvalidResponse, ""},
		{"truncated in complete chunks", "Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n", encodeChunk(z[:len(z)-9]) + "0\r\n\r\n", upstream.Truncated, text},
		// covers: F40
		{"truncated", fmt.Sprintf("Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n", len(z)), z[:len(z)-1], upstream.Truncated, text},
		{"followed by garbage", "Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n", encodeChunk(z) + encodeChunk("garbage, garbage") + "0\r\n\r\n", upstream.InvalidResponse, text},
		{"unsupported coding", "Content-Encoding: br\r\nContent-Length: 5\r\n\r\n", "hello", upstream.InvalidResponse, ""},
		{"two codings", "Content-Encoding: gzip, gzip\r\nContent-Length: 5\r\n\r\n", "hello", upstream.InvalidResponse, ""},
		{"two headers", "Content-Encoding: identity\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\n", "hello", upstream.InvalidResponse, ""},
	} {
		t.Run("S22/"+tt.name, func(t *testing.T) {
			t.Parallel()
			response := "HTTP/1.1 200 OK\r\n" + tt.head + tt.body
			for how, step := range map[string]upstreamtest.Step{"whole": upstreamtest.Write(response), "byte by byte": upstreamtest.Bytes(response)} {
				s := upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), step, upstreamtest.HalfClose(), upstreamtest.AwaitClose()})
				c := newClient(t, s, nil)
				resp, err := c.Do(context.Background(), post(""), nil)
				var got string
				if err == nil {
					if n := len(resp.Header("Content-Length")) + len(resp.Header("Content-Encoding")); n > 0 && tt.name != "identity" {
						t.Errorf("%s: the headers still describe the compressed body", how)
					}
					got, err = drain(resp)
					if _, again := resp.Next(); err != nil && again != err {
						t.Errorf("%s: second call: got %v, want the same error", how, again)
					}
					resp.Close()
				}
				if k := errorKind(t, err); k != tt.kind {
					t.Fatalf("%s: got error %v", how, err)
				}
				if tt.kind == 0 && got != tt.want || !strings.HasPrefix(tt.want, got) && tt.want != "" {
					t.Errorf("%s: %d bytes, want %d", how, len(got), len(tt.want))
				}
			}
		})
	}
}

// TestGzipEventsAreNotDelayed checks that a compressed event is available as soon as it has been received.
//
// covers: S22
func TestGzipEventsAreNotDelayed(t *testing.T) {
	t.Parallel()
	events := []string{"data: a\n\n", "data: b\n\n", "data: [DONE]\n\n"}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	script := upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Head(200, "Content-Encoding: gzip", "Transfer-Encoding: chunked")}
	taken := make(chan struct{})
	for _, ev := range events {
		if _, err := io.WriteString(z, ev); err != nil {
			t.Fatal(err)
		}
		if err := z.Flush(); err != nil {
			t.Fatal(err)
		}
		script = append(script, upstreamtest.Chunk(b.String()), upstreamtest.Wait(taken))
		b.Reset()
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	s := upstreamtest.New(t, append(script, upstreamtest.Chunk(b.String()), upstreamtest.LastChunk(), upstreamtest.AwaitClose()))
	c := newClient(t, s, nil)
	resp, err := c.Do(context.Background(), post(""), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, ev := range events {
		p, err := resp.Next()
		if err != nil || string(p) != ev {
			t.Fatalf("%q, %v, want %q", p, err, ev)
		}
		taken <- struct{}{}
	}
	if p, err := resp.Next(); err != io.EOF {
		t.Fatalf("got %q, error %v", p, err)
	}
	resp.Close()
	if st := c.Stats(); st.Idle != 1 {
		t.Errorf("stats: %+v", st)
	}
}

// covers: F53
func TestGzipBomb(t *testing.T) {
	if testing.Short() {
		t.Skip("inflates a large body")
	}
	t.Parallel()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	zeros := make([]byte, 1<<20)
	for range 64 {
		if _, err := z.Write(zeros); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	s := upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json", b.String(), "Content-Encoding: gzip")})
	c := newClient(t, s, nil)

	t.Run("whole response", func(t *testing.T) {
		resp, err := c.Do(context.Background(), post(""), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Close()
		got, err := resp.ReadAll(nil, 512<<10)
		if errorKind(t, err) != upstream.TooLarge || len(got) > 512<<10 {
			t.Errorf("got %d bytes, error %v", len(got), err)
		}
	})
	t.Run("stream", func(t *testing.T) {
		resp, err := c.Do(context.Background(), post(""), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Close()
		n := 0
		for err == nil {
			var p []byte
			p, err = resp.Next()
			n += len(p)
		}
		if errorKind(t, err) != upstream.InvalidResponse || n > 2<<20 {
			t.Errorf("got %d bytes, error %v", n, err)
		}
	})
}

// TestAbandonedGzipBody checks, through goleak, that an abandoned body leaves no coroutine.
func TestAbandonedGzipBody(t *testing.T) {
	t.Parallel()
	s := upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Head(200, "Content-Encoding: gzip", "Transfer-Encoding: chunked"),
		upstreamtest.Chunk(compress(t, "data: a\n\n")[:25]), upstreamtest.AwaitClose()})
	c := newClient(t, s, nil)
	resp, err := c.Do(context.Background(), post(""), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := resp.Next(); err != nil {
		t.Fatal(err)
	}
	resp.Close()
	awaitClientClose(t, s)
}

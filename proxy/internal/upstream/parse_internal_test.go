package upstream

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// decodeAll passes a body's bytes to the decoder in pieces, and returns the decoded bytes and how many bytes the
// decoder consumed.
func decodeAll(b *body, pieces ...[]byte) (out []byte, taken int, objection string) {
	for _, p := range pieces {
		p = bytes.Clone(p)
		n, used, objection := b.decode(p)
		out = append(out, p[:n]...)
		taken += used
		if objection != "" || used < len(p) {
			return out, taken, objection
		}
	}
	return out, taken, ""
}

// TestChunksInPieces checks that any body in any chunks, split anywhere, is decoded, and that the bytes after it are
// not consumed.
func TestChunksInPieces(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var wire, want bytes.Buffer
		for range rapid.IntRange(0, 5).Draw(t, "chunks") {
			p := rapid.SliceOfN(rapid.Byte(), 1, 40).Draw(t, "chunk")
			want.Write(p)
			size := rapid.SampledFrom([]string{"%x\r\n", "%X\r\n", "000%x\r\n", "%x;a=b\r\n", "%x \t;c=\"d\";e\r\n"}).Draw(t, "size line")
			wire.WriteString(strings.NewReplacer("%x", hexDigits(len(p)), "%X", strings.ToUpper(hexDigits(len(p)))).Replace(size))
			wire.Write(p)
			wire.WriteString("\r\n")
		}
		wire.WriteString(rapid.SampledFrom([]string{"0\r\n\r\n", "000\r\n\r\n", "0;x\r\n\r\n", "0\r\nX-A: 1\r\nX-B:\r\n\r\n"}).Draw(t, "end"))
		size := wire.Len()
		wire.WriteString(rapid.SampledFrom([]string{"", "HTTP/1.1 200 OK\r\n", "\n"}).Draw(t, "after"))
		var pieces [][]byte
		for rest := wire.Bytes(); len(rest) > 0; {
			n := rapid.IntRange(1, min(len(rest), 20)).Draw(t, "piece")
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		b := newBody(chunked, 0)
		out, taken, objection := decodeAll(&b, pieces...)
		if objection != "" || !b.done || taken != size || !bytes.Equal(out, want.Bytes()) {
			t.Fatalf("%q: got %q, done %v, consumed %d bytes of %d, %s", wire.Bytes(), out, b.done, taken, size, objection)
		}
	})
}

// TestMalformedChunks checks the reasons for rejecting a body, of which a part may have been decoded.
func TestMalformedChunks(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ wire, want, objection string }{
		{"5\r\nhello world\r\n0\r\n\r\n", "hello", "chunk longer than its size"},
		{"5\r\nhello\rx", "hello", "chunk longer than its size"},
		{"5\r\nhello!\n0\r\n\r\n", "hello", "chunk longer than its size"},
		{"fffffffffffffff\r\n", "", ""},
		{"0000000000000001\r\n", "", "chunk size too large"},
		{"8000000000000000\r\n", "", "chunk size too large"},
		{"\r\n", "", "malformed chunk size"},
		{"-1\r\n", "", "malformed chunk size"},
		{"5\n", "", "malformed chunk size"},
		{"5;\n", "", "malformed chunk extension"},
		{"5;" + strings.Repeat("x", maxExtension+1), "", "chunk extension too long"},
		{"0\r\na: \x00", "", "malformed trailer"},
		{"0\r\n" + strings.Repeat("x", maxTrailer+1), "", "trailers too long"},
		{"0\r\n\rx", "", "malformed end of the chunks"},
	} {
		b := newBody(chunked, 0)
		if out, _, objection := decodeAll(&b, []byte(tt.wire)); string(out) != tt.want || objection != tt.objection || b.done {
			t.Errorf("%.30q: got %q, done %v, objection %q, want %q and %q", tt.wire, out, b.done, objection, tt.want, tt.objection)
		}
	}
}

func hexDigits(n int) string {
	const digits = "0123456789abcdef"
	if n < 16 {
		return digits[n : n+1]
	}
	return hexDigits(n/16) + digits[n%16:n%16+1]
}

// FuzzChunks compares the decoder with net/http's chunked reader, for any split of the same bytes.
func FuzzChunks(f *testing.F) {
	for _, s := range []string{
		"0\r\n\r\n", "5\r\nhello\r\n0\r\n\r\n", "5;a=b\r\nhello\r\n00\r\nX: y\r\n\r\nrest", "A\r\n0123456789\r\n1\r\nx\r\n0\r\n\r\n", "5 \r\nhello\r\n0\r\n\r\n",
		"5\nhello\n0\n\n", "fffffffffffffff\r\n", "10000000000000000\r\n", "0x5\r\n", "5\r\nhello", "5\r\nhellox", "0\r\n\n", "\r\n", "5;\rx\r\n",
	} {
		f.Add([]byte(s), uint8(3))
	}
	f.Fuzz(func(t *testing.T, wire []byte, size uint8) {
		b := newBody(chunked, 0)
		out, taken, objection := decodeAll(&b, wire)
		var pieces [][]byte
		for rest := wire; len(rest) > 0; {
			n := min(len(rest), max(1, int(size)))
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		c := newBody(chunked, 0)
		out2, taken2, objection2 := decodeAll(&c, pieces...)
		if !bytes.Equal(out, out2) || taken != taken2 || objection != objection2 || b != c {
			t.Fatalf("whole: %q %d %q %+v; in pieces of %d: %q %d %q %+v", out, taken, objection, b, size, out2, taken2, objection2, c)
		}
		if !b.done {
			return
		}
		got, err := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(wire[:taken])))
		if err != nil || !bytes.Equal(got, out) {
			t.Fatalf("got %q, net/http reads %q, %v", out, got, err)
		}
	})
}

// readHeadInPieces reads a header that arrives in pieces of the given size.
func readHeadInPieces(tb testing.TB, wire []byte, size int) (*conn, headScan, error) {
	tb.Helper()
	c := newConn(&pieces{rest: wire, size: size}, Ticks{}.withDefaults(), newMemory(256))
	c.beginRequest(tb.Context(), nil, time.Time{})
	c.enterPhase(PhaseHead, 0, "")
	s, err := c.readHead()
	return c, s, err
}

// FuzzHead checks that net/http parses every accepted header in the same way.
func FuzzHead(f *testing.F) {
	for _, s := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "HTTP/1.0 404 Not Found\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
		"HTTP/1.1 200\r\nA: b\r\nContent-Type: text/event-stream; charset=utf-8\r\nx-request-id: req_1\r\n\r\n", "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n", "HTTP/1.1 200 OK\r\n folded\r\n\r\n", "HTTP/1.1 200 OK\nA: b\n\n",
		"HTTP/1.1 200 OK\r\nTrailer: X-A\r\nTransfer-Encoding: chunked\r\n\r\n", "HTTP/1.1 200 OK\r\nConnection: close, x\r\nSet-Cookie: a=b; Path=/\r\n\r\n",
		"HTTP/1.0 200 OK\r\nconnection: Keep-Alive\r\nContent-Length: 1\r\n\r\n", "HTTP/1.1 200 OK\r\nConnection: x,Close\r\nConnection: keep-alive\r\nContent-Length: 1\r\nA:\r\na: \tb \t\r\n\r\n",
	} {
		f.Add([]byte(s), uint8(3))
	}
	f.Fuzz(func(t *testing.T, wire []byte, size uint8) {
		c, s, err := readHeadInPieces(t, wire, len(wire)+1)
		_, s2, err2 := readHeadInPieces(t, wire, max(1, int(size)))
		if (err == nil) != (err2 == nil) || s.status != s2.status || s.framing != s2.framing || s.length != s2.length {
			t.Fatalf("whole: %+v, %v; in pieces of %d: %+v, %v", s, err, size, s2, err2)
		}
		if err != nil {
			return
		}
		r := bufio.NewReader(bytes.NewReader(wire))
		resp, err := http.ReadResponse(r, &http.Request{Method: http.MethodGet})
		for err == nil && resp.StatusCode < 200 {
			resp, err = http.ReadResponse(r, &http.Request{Method: http.MethodGet})
		}
		if err != nil {
			t.Fatalf("net/http rejects %q: %v", wire, err)
		}
		if resp.StatusCode != s.status {
			t.Fatalf("got status %d, net/http reads %d", s.status, resp.StatusCode)
		}
		if s.framing != untilClose && resp.Close != c.header.last() {
			t.Fatalf("connection closes: got %t, net/http reads %t", c.header.last(), resp.Close)
		}
		for name := range resp.Header {
			if name == "Location" {
				resp.Header.Set(name, "") // not used by the gateway
			}
			if got := string(c.header.get(strings.ToLower(name))); got != resp.Header.Get(name) {
				t.Fatalf("header %s: got %q, net/http reads %q", name, got, resp.Header.Get(name))
			}
		}
		if s.status == http.StatusNoContent || s.status == http.StatusNotModified {
			return
		}
		want := map[framing]int64{untilClose: -1, chunked: -1, sized: s.length}[s.framing]
		if resp.ContentLength != want || (len(resp.TransferEncoding) > 0) != (s.framing == chunked) {
			t.Fatalf("got framing %d, length %d; net/http reads length %d, coding %v", s.framing, s.length, resp.ContentLength, resp.TransferEncoding)
		}
	})
}

// pieces is a connection that delivers bytes in pieces of a given size, and then EOF.
type pieces struct {
	net.Conn
	rest []byte
	size int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.rest[:min(p.size, len(p.rest))])
	p.rest = p.rest[n:]
	return n, nil
}

func (*pieces) SetReadDeadline(time.Time) error { return nil }

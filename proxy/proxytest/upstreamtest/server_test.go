package upstreamtest_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func dial(t *testing.T, s *upstreamtest.Server) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c.(*net.TCPConn)
}

func TestEachConnectionRunsItsScript(t *testing.T) {
	t.Parallel()
	s := upstreamtest.New(t,
		upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "text/plain", "first", "Connection: close")},
		upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk("la", "ter"), upstreamtest.LastChunk(), upstreamtest.Close()})
	hc := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for i, want := range []string{"first", "later", "later"} {
		resp, err := hc.Post(s.URL()+"/a?b", "text/plain", strings.NewReader("body"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || string(got) != want {
			t.Errorf("connection %d: got %q, %v, want %q", i, got, err, want)
		}
	}
	if s.Connections() != 3 {
		t.Errorf("got %d connections, want 3", s.Connections())
	}
	for i, r := range s.Requests() {
		if r.Conn != i || r.Method != "POST" || r.Path != "/a?b" || string(r.Body) != "body" || !strings.HasPrefix(r.Head, "POST /a?b HTTP/1.1\r\n") || r.Header.Get("Content-Type") != "text/plain" {
			t.Errorf("request %d: %+v", i, r)
		}
	}
}

func TestReportsClientClose(t *testing.T) {
	t.Parallel()
	s := upstreamtest.New(t, upstreamtest.Script{upstreamtest.Write("x"), upstreamtest.AwaitClose()})
	for _, want := range []upstreamtest.How{upstreamtest.FIN, upstreamtest.RST} {
		c := dial(t, s)
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		if want == upstreamtest.RST {
			if err := c.SetLinger(0); err != nil {
				t.Fatal(err)
			}
		}
		c.Close()
		if got := <-s.Ended(); got != want {
			t.Errorf("got %d, want %d", got, want)
		}
	}
}

func TestServerClose(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		step upstreamtest.Step
		want error
	}{
		"FIN": {upstreamtest.Close(), io.EOF}, "RST": {upstreamtest.Reset(), syscall.ECONNRESET}, "half": {upstreamtest.HalfClose(), io.EOF},
	} {
		end := make(chan struct{})
		s := upstreamtest.New(t, upstreamtest.Script{upstreamtest.Cut("abcdef", 1, 3), upstreamtest.Bytes("gh"), upstreamtest.Wait(end), tt.step, upstreamtest.AwaitClose()})
		c := dial(t, s)
		r := bufio.NewReader(c)
		p := make([]byte, 8)
		if _, err := io.ReadFull(r, p); err != nil || string(p) != "abcdefgh" {
			t.Fatalf("%s: read %q, %v", name, p, err)
		}
		close(end)
		if _, err := r.ReadByte(); !errors.Is(err, tt.want) {
			t.Errorf("%s: got error %v, want %v", name, err, tt.want)
		}
	}
}

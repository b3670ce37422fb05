package e2e_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// TestInvalidHeadersAreNotLogged sends malformed heads with a credential at the position of the error, and checks that
// neither the response nor the log quotes it.
func TestInvalidHeadersAreNotLogged(t *testing.T) {
	const secret = "sk-canary-5120"
	g := proxytest.Start(t, configuration("", ""))
	for name, request := range map[string]string{
		// covers: F104
		"control in a value": "POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer " + secret + "\x01\r\n\r\n",
		"control in a name":  "POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\n" + secret + "\x01: x\r\n\r\n",
		"space before colon": "POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\n" + secret + " : x\r\n\r\n",
		"no colon":           "POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\n" + secret + "\r\n\r\n",
		"obs-fold":           "POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer\r\n " + secret + "\r\n\r\n",
		// covers: F105
		"host": "POST /v1/chat/completions HTTP/1.1\r\nHost: " + secret + "/?\r\n\r\n",
		"port": "POST /v1/chat/completions HTTP/1.1\r\nHost: gateway:" + secret + "\r\n\r\n",
		// covers: F106
		"version":    "POST /v1/chat/completions?key=" + secret + " " + secret + "\r\nHost: gateway\r\n\r\n",
		"no version": "POST " + secret + "\r\nHost: gateway\r\n\r\n",
		// covers: F101
		"transfer encoding": "POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nTransfer-Encoding: " + secret + "\r\n\r\n",
		// covers: F102
		"length": "POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nContent-Length: " + secret + "\r\n\r\n",
		// covers: F103
		"chunk size": "POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nTransfer-Encoding: chunked\r\n\r\n" + secret + "\r\n\r\n",
		"trailer":    "POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: " + secret + "\x01\r\n\r\n",
		// covers: F107
		"head of 64 KiB": "POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nAuthorization: " + strings.Repeat(secret, 5000) + "\r\n\r\n",
		// covers: F111
		"rejected expectation": "POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer " + secret + "\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			c := dial(t, g)
			c.send(request)
			answer, err := io.ReadAll(c.r)
			if err != nil && !errors.Is(err, syscall.ECONNRESET) {
				t.Fatal(err)
			}
			if !strings.HasPrefix(string(answer), "HTTP/1.1 4") || !strings.Contains(string(answer), "Connection: close") || !strings.Contains(string(answer), `{"error":{`) {
				t.Errorf("got %s, want an error with Connection: close", answer)
			}
			if strings.Contains(string(answer), secret) {
				t.Errorf("the response contains the credential: %s", answer)
			}
			if strings.Contains(g.Log.String(), secret) {
				t.Errorf("the log contains the credential: %s", g.Log)
			}
		})
	}
}

// TestRejectsAmbiguousFraming checks that a request with ambiguous framing gets one error, and that no part of it is
// parsed as a second request.
//
// covers: F101
func TestRejectsAmbiguousFraming(t *testing.T) {
	g := proxytest.Start(t, configuration("", ""))
	head := "POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer " + proxytest.Key + "\r\nContent-Type: application/json\r\n"
	chunked := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(hello), hello)
	for name, request := range map[string]string{
		"CL.TE":              head + fmt.Sprintf("Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n%s", len(chunked), chunked),
		"TE.CL":              head + fmt.Sprintf("Transfer-Encoding: chunked\r\nContent-Length: %d\r\n\r\n%s", len(chunked), chunked),
		"identity":           head + fmt.Sprintf("Transfer-Encoding: identity\r\nContent-Length: %d\r\n\r\n%s", len(hello), hello),
		"xchunked":           head + "Transfer-Encoding: xchunked\r\n\r\n" + chunked,
		"chunked, identity":  head + "Transfer-Encoding: chunked, identity\r\n\r\n" + chunked,
		"twice":              head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked,
		"space before colon": head + "Transfer-Encoding : chunked\r\n\r\n" + chunked,
		"folded":             head + "X: y\r\n Transfer-Encoding: chunked\r\n\r\n" + chunked,
		"HTTP/1.0":           strings.Replace(head, "1.1", "1.0", 1) + "Transfer-Encoding: chunked\r\n\r\n" + chunked,
		"two lengths":        head + fmt.Sprintf("Content-Length: %d\r\nContent-Length: %d\r\n\r\n%s", len(hello), len(hello), hello),
		"list of lengths":    head + fmt.Sprintf("Content-Length: %d, %d\r\n\r\n%s", len(hello), len(hello), hello),
		"signed length":      head + fmt.Sprintf("Content-Length: +%d\r\n\r\n%s", len(hello), hello),
		"two hosts":          head + fmt.Sprintf("Host: gateway\r\nContent-Length: %d\r\n\r\n%s", len(hello), hello),
		"no host":            strings.Replace(head, "Host: gateway\r\n", "", 1) + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(hello), hello),
	} {
		t.Run(name, func(t *testing.T) {
			c := dial(t, g)
			c.send(request)
			answer, err := io.ReadAll(c.r)
			if err != nil && !errors.Is(err, syscall.ECONNRESET) {
				t.Fatal(err)
			}
			if !strings.HasPrefix(string(answer), "HTTP/1.1 400") || !strings.Contains(string(answer), "Connection: close") || strings.Count(string(answer), "HTTP/1.1 ") != 1 {
				t.Errorf("got %s, want a single 400 with Connection: close", answer)
			}
		})
	}
}

// covers: F111
func TestRejectsUnknownExpectation(t *testing.T) {
	g := proxytest.Start(t, configuration("", ""))
	c := dial(t, g)
	c.post("expects", hello, "Expect: the-unexpected")
	if got := c.readUntil("}}"); !strings.HasPrefix(got, "HTTP/1.1 417") || !strings.Contains(got, "X-Request-Id: expects\r\n") {
		t.Errorf("got %s, want status 417 and the request ID", got)
	}
}

// exhaustedListener fails its first calls of Accept as if the process had run out of file descriptors.
type exhaustedListener struct {
	net.Listener
	failures int           // remaining
	failed   chan struct{} // closed after the last failure
}

func (l *exhaustedListener) Accept() (net.Conn, error) {
	if l.failures > 0 {
		if l.failures--; l.failures == 0 {
			close(l.failed)
		}
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: syscall.EMFILE}
	}
	return l.Listener.Accept()
}

// covers: F86
func TestAcceptResumesAfterDescriptorsRanOut(t *testing.T) {
	g := proxytest.Start(t, configuration("", ""))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &exhaustedListener{Listener: ln, failures: 3, failed: make(chan struct{})}
	served := make(chan error, 1)
	go func() { served <- g.Server.Serve(l) }()
	<-l.failed
	second := &proxytest.Gateway{URL: "http://" + ln.Addr().String()}
	if r := second.Chat(t, hello); r.Status != 200 {
		t.Errorf("status %d: %s", r.Status, r.Body)
	}
	if err := g.Stop(proxytest.EventTimeout); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Errorf("Serve ended with %v", err)
	}
}

// covers: F86
func TestShutdownWhileOutOfDescriptors(t *testing.T) {
	g := proxytest.Start(t, configuration("", ""))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &exhaustedListener{Listener: ln, failures: 1, failed: make(chan struct{})}
	served := make(chan error, 1)
	go func() { served <- g.Server.Serve(l) }()
	<-l.failed
	if err := g.Stop(proxytest.EventTimeout); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Errorf("Serve ended with %v", err)
	}
}

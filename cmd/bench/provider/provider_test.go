package provider_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-gateway/sluice/cmd/bench/provider"
)

// eventTimeout is how long a test waits for an event.
const eventTimeout = 20 * time.Second

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve runs a provider until the test ends.
func serve(t *testing.T, dialect string) (*provider.Server, string) {
	t.Helper()
	s, err := provider.New(dialect)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	t.Cleanup(func() {
		if err := ln.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return s, "http://" + ln.Addr().String()
}

// open sends a request on a new connection and reads up to the first text event.
func open(t *testing.T, url string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(eventTimeout)); err != nil {
		t.Fatal(err)
	}
	const body = `{"model":"gpt","stream":true}`
	fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", provider.Credential, len(body), body)
	r := bufio.NewReader(conn)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(line, `"content":" The"`) {
			return conn, r
		}
	}
}

// rest reads to the end of the body and returns the number of text events.
func rest(t *testing.T, r *bufio.Reader) (texts int) {
	t.Helper()
	done := false
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(line, `"content":" `) {
			texts++
		}
		done = done || line == "data: [DONE]\n"
		if line == "0\r\n" {
			if !done {
				t.Error("the stream ended without its last event")
			}
			return texts
		}
	}
}

func TestHeldStreamsEnd(t *testing.T) {
	s, url := serve(t, "openai")
	s.Play(provider.Scenario{Stream: true, Hold: true})
	conn, r := open(t, url)
	gone, _ := open(t, url)
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	s.EndStreams()
	if n := rest(t, r); n != 0 {
		t.Errorf("got %d more text events in a held stream, want 0", n)
	}
	_ = conn
}

func TestPacedStreams(t *testing.T) {
	s, url := serve(t, "openai")
	s.Play(provider.Scenario{Stream: true, Every: 10 * time.Millisecond})
	var readers []*bufio.Reader
	for range 12 {
		_, r := open(t, url)
		readers = append(readers, r)
	}
	for _, r := range readers {
		// Every stream must continue.
		for n := 0; n < 5; {
			line, err := r.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(line, `"content":" `) {
				n++
			}
		}
	}
	s.EndStreams()
	got := int64(len(readers) * 6)
	for _, r := range readers {
		got += int64(rest(t, r))
	}
	if s.Events() != got {
		t.Errorf("got %d events, the provider counted %d", got, s.Events())
	}
}

func TestCountsRejectedRequests(t *testing.T) {
	for name, head := range map[string]string{
		"no credential":     "POST /v1/chat/completions HTTP/1.1\r\n",
		"other path":        "POST /v1/completions HTTP/1.1\r\nAuthorization: Bearer " + provider.Credential + "\r\n",
		"unexpected stream": "POST /v1/messages HTTP/1.1\r\nX-Api-Key: " + provider.Credential + "\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			s, url := serve(t, "anthropic")
			s.Play(provider.Scenario{Stream: name != "unexpected stream"})
			conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			const body = `{"stream":true}`
			fmt.Fprintf(conn, "%sContent-Length: %d\r\n\r\n%s", head, len(body), body)
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != 400 || s.Rejected() != 1 {
				t.Errorf("got status %d and %d rejected requests, want 400 and 1", resp.StatusCode, s.Rejected())
			}
		})
	}
}

package upstream

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// inspector is a Watcher that inspects a waiting connection.
type inspector struct {
	conn    *conn
	inspect func(c *conn)
}

func (i *inspector) Tick(Phase, time.Duration) error {
	if i.conn != nil {
		i.inspect(i.conn)
	}
	return nil
}

// TestIdleConnectionHoldsNoBuffer checks that a connection releases its buffer between two pieces of a body and after
// the response, and that the data that follows is complete, even if the header needed a large buffer.
func TestIdleConnectionHoldsNoBuffer(t *testing.T) {
	for name, padding := range map[string]string{"small": "x", "large": strings.Repeat("x", 8<<10)} {
		t.Run(name, func(t *testing.T) {
			proceed := make(chan struct{})
			s := upstreamtest.New(t, upstreamtest.Script{
				upstreamtest.ReadRequest(), upstreamtest.Write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\nX-Padding: " + padding + "\r\n\r\nhello"),
				upstreamtest.Wait(proceed), upstreamtest.Write("world"), upstreamtest.AwaitClose(),
			})
			client, err := New(Config{BaseURL: s.URL(), Ticks: Ticks{First: time.Millisecond}})
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			inspected := false
			watcher := &inspector{inspect: func(c *conn) {
				if c.buf != nil || c.small != nil {
					t.Errorf("a waiting connection holds a buffer of %d bytes", len(c.buf))
				}
				if !inspected {
					inspected = true
					close(proceed)
				}
			}}
			r, err := client.Do(t.Context(), &Request{Method: "GET", Path: "/"}, watcher)
			if err != nil {
				t.Fatal(err)
			}
			c := r.conn
			watcher.conn = c
			var body []byte
			for {
				p, err := r.Next()
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				body = append(body, p...)
			}
			r.Close()
			if string(body) != "helloworld" || !inspected {
				t.Errorf("got %q, inspected while waiting: %t", body, inspected)
			}
			if c.buf != nil || c.small != nil {
				t.Error("an idle connection holds a buffer")
			}
		})
	}
}

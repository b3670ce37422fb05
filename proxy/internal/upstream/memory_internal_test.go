package upstream

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// onlooker is a Watcher that inspects a waiting connection.
type onlooker struct {
	conn *conn
	look func(c *conn)
}

func (o *onlooker) Tick(Phase, time.Duration) error {
	if o.conn != nil {
		o.look(o.conn)
	}
	return nil
}

// TestIdleConnectionHoldsNoBuffer checks that a connection releases its buffer between two pieces of a body and after the response, and
// that the data that follows is complete, even if the header needed a large buffer.
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
			looked := false
			o := &onlooker{look: func(c *conn) {
				if c.buf != nil || c.small != nil {
					t.Errorf("a buffer of %d bytes is held in a wait", len(c.buf))
				}
				if !looked {
					looked = true
					close(proceed)
				}
			}}
			r, err := client.Do(t.Context(), &Request{Method: "GET", Path: "/"}, o)
			if err != nil {
				t.Fatal(err)
			}
			c := r.conn
			o.conn = c
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
			if string(body) != "helloworld" || !looked {
				t.Errorf("got %q, waited: %t", body, looked)
			}
			if c.buf != nil || c.small != nil {
				t.Error("an idle connection holds a buffer")
			}
		})
	}
}

package upstream

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// TestLostRequestOnReusedConnection resets a reused connection after a request has been read. The request is sent again
// only if the connection was lost soon after it was written, and the error of a request that could not be sent again
// says that it was written: the provider may bill it.
func TestLostRequestOnReusedConnection(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		soon     time.Duration
		dials    int // connections that can be established
		resender Resender
		want     string // response; "" is an error
		written  bool   // Error.Written; a request with a response has been written
		resends  uint64
	}{
		"soon":                             {time.Minute, 2, nil, "three", false, 1},
		"soon, and cannot connect":         {time.Minute, 1, nil, "", true, 1},
		"later than a stale one would":     {time.Nanosecond, 2, allow(true), "", true, 0},
		"allowed":                          {time.Minute, 2, allow(true), "three", false, 1},
		"forbidden":                        {time.Minute, 2, allow(false), "", true, 0},
		"taken into account by the caller": {time.Minute, 1, allow(true), "", false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := upstreamtest.New(t, upstreamtest.Script{upstreamtest.Echo(), upstreamtest.ReadRequest(), upstreamtest.Reset()},
				upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "text/plain", "three"), upstreamtest.AwaitClose()})
			dialled := 0
			client, err := New(Config{BaseURL: s.URL(), Dial: func(_ context.Context, network, address string) (net.Conn, error) {
				if dialled++; dialled > c.dials {
					return nil, errors.New("refused")
				}
				return net.Dial(network, address)
			}})
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			client.staleWithin = c.soon
			if _, _, err := exchange(client, "POST", "one"); err != nil {
				t.Fatal(err)
			}
			got := ""
			request := Request{Method: "POST", Path: "/", Body: []byte("two"), Resender: c.resender}
			r, err := client.Do(context.Background(), &request, nil)
			if err == nil {
				text, _ := r.ReadAll(nil, 1<<20)
				got = string(text)
				r.Close()
			}
			if e, failed := errors.AsType[*Error](err); got != c.want || failed != (c.want == "") || failed && (e.Written != c.written || e.Kind != Unreachable) {
				t.Errorf("got %q, error %+v, want %q or an error whose Written is %t", got, err, c.want, c.written)
			}
			if request.Written != (c.written || err == nil) {
				t.Errorf("Request.Written is %t, error %v", request.Written, err)
			}
			if st := client.Stats(); st.Retried != c.resends {
				t.Errorf("stats %+v, want %d requests sent again", st, c.resends)
			}
		})
	}
}

// allow is a Resender.
type allow bool

func (a allow) AllowResend() bool { return bool(a) }

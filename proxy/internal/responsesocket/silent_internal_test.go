package responsesocket

import (
	"io"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/admission"
	"github.com/sluice-gateway/sluice/proxy/internal/downstream"
	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
	"github.com/sluice-gateway/sluice/proxy/internal/responses"
)

// message returns a text frame with an empty mask that holds a request in a lane.
func message(lane string) []byte {
	text := `{"type":"response.create","model":"m","input":"x","store":false`
	if lane != "" {
		text += `,"stream_id":"` + lane + `"`
	}
	text += "}"
	return append([]byte{0x81, 0x80 | byte(len(text)), 0, 0, 0, 0}, text...)
}

var pingFrame, pongFrame = []byte{0x89, 0}, []byte{0x8a, 0x80, 0, 0, 0, 0}

// openTestSocket returns a socket and its client.
func openTestSocket(t *testing.T, o Options) (*Socket, net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	conns := downstream.New(downstream.Options{Limits: downstream.Limits{Conns: 1, ReadTimeout: time.Hour, IdleTimeout: time.Hour}, Log: slog.New(slog.DiscardHandler)})
	l := conns.Listen(ln)
	t.Cleanup(func() { _ = l.Close() })
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	c, _, err := l.AcceptConn()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	o.MaxMessage, o.IdleTimeout, o.MaxAge = 1<<20, time.Hour, time.Hour
	o.Memory, o.Limiter = responses.NewMemory(0, 0, nil), new(admission.Limiter)
	o.Draining, o.Panicked = func() bool { return false }, func(p *rescue.Error) { t.Error(p) }
	return New(c, nil, o), client
}

// testClock is a clock of a socket that a test moves forward. Deadlines of the connection keep to the system's clock.
type testClock struct{ ahead atomic.Int64 }

func (c *testClock) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// pass lets a ping interval pass, and makes the socket notice until done is closed.
func (c *testClock) pass(s *Socket, done <-chan struct{}) {
	c.ahead.Add(int64(pingInterval))
	for {
		select {
		case <-done:
			return
		default:
			s.conn.SetUpgradedDeadline(time.Now())
			runtime.Gosched()
		}
	}
}

// TestSilentClient has a client that answers a ping, and then stops responding, as behind a network that is gone. One
// interval after the next ping its socket ends, with the turn in progress, the one that waits, and the responses that it
// holds.
func TestSilentClient(t *testing.T) {
	began := make(chan struct{}, 3)
	var clock testClock
	var gone atomic.Int64
	s, client := openTestSocket(t, Options{Serve: func(c *downstream.Conn, _ *Body, _ bool) *Rejection {
		began <- struct{}{}
		for !c.Turn().Gone() {
			runtime.Gosched()
		}
		gone.Add(1)
		return nil
	}})
	s.now = clock.now
	s.holdResponse("resp_1", responses.Held{Input: []byte("{}")})
	ended := make(chan struct{})
	var err error
	go func() {
		defer close(ended)
		_, err = s.WriteStream()
		_ = s.conn.Close()
	}()
	wantPing := func() {
		t.Helper()
		pinged := make(chan struct{})
		go func() {
			defer close(pinged)
			var got [2]byte
			if _, err := io.ReadFull(client, got[:]); err != nil || !slices.Equal(got[:], pingFrame) {
				t.Errorf("the client receives % x, %v", got, err)
			}
		}()
		clock.pass(s, pinged)
	}
	send := func(frames ...[]byte) {
		t.Helper()
		if _, err := client.Write(slices.Concat(frames...)); err != nil {
			t.Fatal(err)
		}
	}
	send(message(""))
	<-began
	wantPing()
	send(pongFrame, message("a"), message("a"))
	<-began // so the pong has been read
	wantPing()
	clock.pass(s, ended)
	if err != errSilent {
		t.Errorf("the socket ends with %v, want %v", err, errSilent)
	}
	if got, err := io.ReadAll(client); len(got) > 0 {
		t.Errorf("after the second ping the client receives % x, %v", got, err)
	}
	if _, held := s.o.Memory.Held(s.id, "resp_1"); held || s.o.Memory.Size() != 0 {
		t.Error("a response is still held")
	}
	if gone.Load() != 2 || len(began) != 0 {
		t.Errorf("%d turns have ended, want 2, and %d have begun at the end", gone.Load(), len(began))
	}
}

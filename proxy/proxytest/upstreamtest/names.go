package upstreamtest

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"sync"
	"testing"
)

// The failures of a NameServer: RCODEs, and Silence for no response.
const (
	ServFail = 2
	NXDomain = 3
	Silence  = -1
)

// NameServer is a DNS server for tests: one UDP socket on 127.0.0.1 that resolves every name to the same addresses. It
// is safe for concurrent use.
type NameServer struct {
	conn net.PacketConn
	done chan struct{}

	mu      sync.Mutex
	code    int // RCODE, or Silence
	addrs   []netip.Addr
	queries map[string]int // count by record type
	clients []net.Conn     // closed at the end of the test, because the resolver keeps waiting for responses that it no longer needs
	closed  bool
}

// NewNameServer starts a server that resolves names to addrs until the test ends.
func NewNameServer(tb testing.TB, addrs ...string) *NameServer {
	tb.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	n := &NameServer{conn: pc, done: make(chan struct{}), queries: map[string]int{}}
	n.Answer(addrs...)
	go n.serve()
	tb.Cleanup(func() {
		pc.Close()
		<-n.done
		n.mu.Lock()
		defer n.mu.Unlock()
		n.closed = true
		for _, c := range n.clients {
			c.Close()
		}
	})
	return n
}

// Answer sets the addresses of all names.
func (n *NameServer) Answer(addrs ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.code, n.addrs = 0, nil
	for _, a := range addrs {
		n.addrs = append(n.addrs, netip.MustParseAddr(a))
	}
}

// Fail makes the server respond with an RCODE, or not at all (Silence).
func (n *NameServer) Fail(code int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.code = code
}

// Queries returns the number of queries for IPv4 addresses. Each lookup queries both families.
func (n *NameServer) Queries() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.queries["A"]
}

// Resolver returns a resolver that uses this server.
func (n *NameServer) Resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.closed {
			return nil, net.ErrClosed
		}
		c, err := (&net.Dialer{}).DialContext(ctx, "udp", n.conn.LocalAddr().String())
		if err == nil {
			n.clients = append(n.clients, c)
		}
		return c, err
	}}
}

func (n *NameServer) serve() {
	defer close(n.done)
	q := make([]byte, 1500)
	for {
		k, from, err := n.conn.ReadFrom(q)
		if err != nil {
			return
		}
		if k <= 12 {
			continue
		}
		if a := n.answer(q[:k]); a != nil {
			n.conn.WriteTo(a, from)
		}
	}
}

// answer returns the response to a query, or nil to send none.
func (n *NameServer) answer(q []byte) []byte {
	n.mu.Lock()
	defer n.mu.Unlock()
	end := 12
	for q[end] != 0 {
		end += 1 + int(q[end])
	}
	end += 5
	typ := binary.BigEndian.Uint16(q[end-4:])
	n.queries[map[uint16]string{1: "A", 28: "AAAA"}[typ]]++
	if n.code == Silence {
		return nil
	}
	a := append([]byte{q[0], q[1], 0x81, 0x80 | byte(n.code), 0, 1, 0, 0, 0, 0, 0, 0}, q[12:end]...)
	if n.code != 0 {
		return a
	}
	for _, ip := range n.addrs {
		raw, want := ip.AsSlice(), uint16(28)
		if ip.Is4() {
			want = 1
		}
		if typ != want {
			continue
		}
		a[7]++
		a = append(a, 0xC0, 12, 0, byte(want), 0, 1, 0, 0, 0, 0, 0, byte(len(raw)))
		a = append(a, raw...)
	}
	return a
}

package loadtest

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
)

// Provider is a provider whose responses are written by a function.
type Provider struct {
	ln      net.Listener
	respond func(*Exchange) error
	wg      sync.WaitGroup

	accepted, requests, inFlight atomic.Int64

	mu     sync.Mutex
	open   map[net.Conn]struct{}
	closed bool
}

// Exchange is a request to a provider, and the connection for its response.
type Exchange struct {
	net.Conn
	Request *http.Request
	Body    []byte
	Reused  bool // the request is not the first on the connection
}

// Serve serves the connections of ln until Close. respond writes a complete response. If it returns an error, the
// connection is closed.
func Serve(ln net.Listener, respond func(*Exchange) error) *Provider {
	p := &Provider{ln: ln, respond: respond, open: map[net.Conn]struct{}{}}
	p.wg.Go(p.accept)
	return p
}

// Listen is like Serve, on a free port of 127.0.0.1.
func Listen(respond func(*Exchange) error) (*Provider, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return Serve(ln, respond), nil
}

// URL returns the provider's base URL.
func (p *Provider) URL() string { return "http://" + p.ln.Addr().String() }

// Accepted returns the number of accepted connections.
func (p *Provider) Accepted() int64 { return p.accepted.Load() }

// Requests returns the number of received requests.
func (p *Provider) Requests() int64 { return p.requests.Load() }

// InFlight returns the number of requests in flight.
func (p *Provider) InFlight() int64 { return p.inFlight.Load() }

// Connections returns the number of open connections.
func (p *Provider) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.open)
}

// Close closes all connections and waits until their requests have ended.
func (p *Provider) Close() {
	p.mu.Lock()
	p.closed = true
	_ = p.ln.Close()
	for c := range p.open {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.wg.Wait()
}

func (p *Provider) accept() {
	for {
		c, err := p.ln.Accept()
		if err != nil {
			return
		}
		p.accepted.Add(1)
		p.mu.Lock()
		if p.closed {
			p.mu.Unlock()
			_ = c.Close()
			return
		}
		p.open[c] = struct{}{}
		p.wg.Go(func() {
			p.serve(c)
			_ = c.Close()
			p.mu.Lock()
			delete(p.open, c)
			p.mu.Unlock()
		})
		p.mu.Unlock()
	}
}

func (p *Provider) serve(c net.Conn) {
	r := bufio.NewReaderSize(c, 2<<10)
	for reused := false; ; reused = true {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		p.requests.Add(1)
		p.inFlight.Add(1)
		err = p.respond(&Exchange{Conn: c, Request: req, Body: body, Reused: reused})
		p.inFlight.Add(-1)
		if err != nil {
			return
		}
	}
}

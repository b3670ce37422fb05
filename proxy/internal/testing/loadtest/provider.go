package loadtest

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
)

// Provider is a provider whose answers are bytes that a function writes.
type Provider struct {
	ln     net.Listener
	answer func(*Exchange) error
	wg     sync.WaitGroup

	accepted, requests, inFlight atomic.Int64

	mu     sync.Mutex
	open   map[net.Conn]struct{}
	closed bool
}

// Exchange is a request to a provider, and the connection that its answer is written to.
type Exchange struct {
	net.Conn
	Request *http.Request
	Body    []byte
	Reused  bool // the connection has carried a request before
}

// Serve answers the connections of ln until Close. answer writes the whole answer; after an error the connection is
// closed.
func Serve(ln net.Listener, answer func(*Exchange) error) *Provider {
	p := &Provider{ln: ln, answer: answer, open: map[net.Conn]struct{}{}}
	p.wg.Go(p.accept)
	return p
}

// Listen is Serve on a port of 127.0.0.1.
func Listen(answer func(*Exchange) error) (*Provider, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return Serve(ln, answer), nil
}

// URL is the provider's base URL.
func (p *Provider) URL() string { return "http://" + p.ln.Addr().String() }

// Accepted is how many connections were made, Requests how many requests have come, and Answering how many of them are
// being answered.
func (p *Provider) Accepted() int64 { return p.accepted.Load() }

// Requests is how many requests have come.
func (p *Provider) Requests() int64 { return p.requests.Load() }

// InFlight is how many requests are being answered.
func (p *Provider) InFlight() int64 { return p.inFlight.Load() }

// Connections is how many connections are open.
func (p *Provider) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.open)
}

// Close closes all connections and waits for the ends of their answers.
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
		err = p.answer(&Exchange{Conn: c, Request: req, Body: body, Reused: reused})
		p.inFlight.Add(-1)
		if err != nil {
			return
		}
	}
}

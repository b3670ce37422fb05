package upstreamtest

import (
	"bufio"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"testing"
)

// Script is what a connection does, in order.
type Script []Step

// Step is one thing that a connection does. An error ends the script and closes the connection.
type Step func(*Conn) error

// Request is a request as the server read it.
type Request struct {
	Conn   int    // number of the connection it came on, from 0
	Head   string // request line and headers, byte for byte, without the empty line
	Method string
	Path   string // the request target, byte for byte
	Header http.Header
	Body   []byte
}

// Conn is one connection of a Server.
type Conn struct {
	net.Conn
	Index  int // number of the connection, from 0
	Server *Server

	r    *bufio.Reader
	last Request // the one read last
}

// How says how the client ended a connection.
type How uint8

// The ways in which a client ends a connection.
const (
	FIN How = iota + 1
	RST
)

// Server is a scripted provider.
type Server struct {
	ln      net.Listener
	scripts []Script
	scheme  string
	roots   *tls.Config
	done    chan struct{}
	ended   chan How
	wg      sync.WaitGroup

	mu       sync.Mutex
	open     map[net.Conn]struct{}
	accepted int
	requests []Request
}

// New starts a server; the test's end stops it.
func New(tb testing.TB, scripts ...Script) *Server {
	tb.Helper()
	return NewAt(tb, "127.0.0.1:0", scripts...)
}

// NewAt starts a server at an address of the loopback interface.
func NewAt(tb testing.TB, address string, scripts ...Script) *Server {
	tb.Helper()
	ln, err := net.Listen("tcp", address)
	if err != nil {
		tb.Fatal(err)
	}
	return start(tb, &Server{ln: ln, scheme: "http"}, scripts)
}

func start(tb testing.TB, s *Server, scripts []Script) *Server {
	s.scripts, s.done, s.open = scripts, make(chan struct{}), map[net.Conn]struct{}{}
	s.ended = make(chan How, 1024)
	s.wg.Go(s.accept)
	tb.Cleanup(func() {
		close(s.done)
		s.ln.Close()
		s.mu.Lock()
		for c := range s.open {
			c.Close()
		}
		s.mu.Unlock()
		s.wg.Wait()
	})
	return s
}

// URL is the server's base URL, without a slash at its end.
func (s *Server) URL() string { return s.scheme + "://" + s.Addr() }

// Addr is the server's address.
func (s *Server) Addr() string { return s.ln.Addr().String() }

// Connections is how many connections were accepted.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.accepted
}

// Requests returns all requests that were read so far. A request is there before the first byte of its answer is.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// Ended delivers how the client ended each connection that waits for that in AwaitClose or in ReadRequest.
func (s *Server) Ended() <-chan How { return s.ended }

func (s *Server) accept() {
	for {
		nc, err := s.ln.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		c := &Conn{Conn: nc, Index: s.accepted, Server: s}
		s.accepted++
		s.open[nc] = struct{}{}
		select {
		case <-s.done:
			nc.Close()
		default:
		}
		s.mu.Unlock()
		s.wg.Go(func() {
			defer func() {
				nc.Close()
				s.mu.Lock()
				delete(s.open, nc)
				s.mu.Unlock()
			}()
			c.run(s.scripts[min(c.Index, len(s.scripts)-1)])
		})
	}
}

func (c *Conn) run(script Script) {
	c.r = bufio.NewReader(c.Conn)
	for _, step := range script {
		if step(c) != nil {
			return
		}
	}
}

// Last is the request that was read last on the connection.
func (c *Conn) Last() Request { return c.last }

package upstreamtest

import (
	"bufio"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"testing"
)

// Script is the list of steps that a connection runs in order.
type Script []Step

// Step is one step of a script. An error ends the script and closes the connection.
type Step func(*Conn) error

// Request is a request as the server read it.
type Request struct {
	Conn   int    // number of its connection, from 0
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
	last Request // the last request read
}

// How is how a client ended a connection.
type How uint8

// The ways to end a connection.
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

// New starts a server, which is stopped at the end of the test.
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

// URL returns the server's base URL, without a trailing slash.
func (s *Server) URL() string { return s.scheme + "://" + s.Addr() }

// Addr returns the server's address.
func (s *Server) Addr() string { return s.ln.Addr().String() }

// Connections returns the number of accepted connections.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.accepted
}

// Requests returns all requests read so far. A request is recorded before its response starts.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// Ended returns a channel that receives how the client ended a connection, for each connection on which a step notices
// the end.
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

// Last returns the last request read on the connection.
func (c *Conn) Last() Request { return c.last }

// Package provider is the fake provider of the benchmark: an HTTP server that returns the same completion to every
// request, in the dialect of OpenAI or Anthropic, streaming or not, with events that look like recorded ones.
//
// It does little work per response, so that two cores are enough for it, the gateway and the load generator. It checks
// only the path and the credential of a request, and whether it asks for a stream.
//
// Concurrency: one goroutine per connection, one more for a held stream, and one that paces the events of all streams.
package provider

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Credential is the provider's API key. It is also the client key, because a bare proxy forwards the client's.
const Credential = "sk-bench-0123456789abcdef"

// Scenario describes the responses.
type Scenario struct {
	Stream bool

	// For streams:
	Events int           // number of text events of an unpaced stream; paced and held streams last until EndStreams
	Every  time.Duration // interval between text events; 0 means as fast as possible
	Block  int           // bytes per write, regardless of event boundaries; 0 means one write per event
	Hold   bool          // no events after the first one, until EndStreams or a client disconnect
}

// Server responds in one dialect.
type Server struct {
	dialect  *dialect
	scenario atomic.Pointer[running]
	events   atomic.Int64 // text events written
	rejected atomic.Int64 // invalid requests

	mu    sync.Mutex
	conns map[net.Conn]struct{}
	wait  sync.WaitGroup
}

// running is a scenario in progress.
type running struct {
	Scenario
	end  chan struct{}
	once sync.Once
	pace *pace
}

// New returns a provider that speaks "openai" or "anthropic".
func New(name string) (*Server, error) {
	d := dialects[name]
	if d == nil {
		return nil, errors.New("no dialect " + strconv.Quote(name))
	}
	s := &Server{dialect: d, conns: map[net.Conn]struct{}{}}
	s.Play(Scenario{})
	return s, nil
}

// Play starts a scenario. Streams of the previous scenario end.
func (s *Server) Play(next Scenario) {
	r := &running{Scenario: next, end: make(chan struct{})}
	if next.Stream && next.Every > 0 {
		r.pace = newPace(next.Every, &s.events, r.end)
	}
	if old := s.scenario.Swap(r); old != nil {
		old.stop()
	}
}

// EndStreams completes all open streams.
func (s *Server) EndStreams() { s.scenario.Load().stop() }

func (r *running) stop() { r.once.Do(func() { close(r.end) }) }

// Events returns the number of text events written.
func (s *Server) Events() int64 { return s.events.Load() }

// Rejected returns the number of invalid requests received.
func (s *Server) Rejected() int64 { return s.rejected.Load() }

// Serve serves ln until it is closed, then closes all connections.
func (s *Server) Serve(ln net.Listener) error {
	defer func() {
		s.EndStreams()
		s.mu.Lock()
		for c := range s.conns {
			c.Close()
		}
		s.mu.Unlock()
		s.wait.Wait()
	}()
	for {
		c, err := ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		s.mu.Lock()
		s.conns[c] = struct{}{}
		s.mu.Unlock()
		s.wait.Go(func() {
			s.serve(c)
			c.Close()
			s.mu.Lock()
			delete(s.conns, c)
			s.mu.Unlock()
		})
	}
}

// bodies pools buffers for request bodies. A buffer is returned before the response, so held streams do not keep one.
var bodies = sync.Pool{New: func() any { return new(make([]byte, 0, 256<<10)) }}

func (s *Server) serve(c net.Conn) {
	r := bufio.NewReaderSize(c, 4<<10)
	for {
		buf := bodies.Get().(*[]byte)
		q, err := readRequest(r, buf)
		if err != nil {
			bodies.Put(buf)
			return
		}
		running := s.scenario.Load()
		var response []byte
		switch {
		case q.get:
			response = s.dialect.models
		case q.collector:
			response = accepted
		case !q.path || !q.credential || q.stream != running.Stream:
			s.rejected.Add(1)
			response = s.dialect.rejection
		case !running.Stream:
			response = s.dialect.completion
		}
		bodies.Put(buf)
		if response == nil {
			if !s.stream(c, running) {
				return
			}
			continue
		}
		if _, err := c.Write(response); err != nil {
			return
		}
	}
}

// accepted is the response of a collector that has accepted traces.
var accepted = []byte("HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n")

// request has the results of a request's checks.
type request struct {
	get        bool // GET request
	collector  bool // traces for a collector
	path       bool // path of a completion endpoint
	credential bool // has Credential
	stream     bool // asks for a stream
}

// readRequest reads a complete request.
func readRequest(r *bufio.Reader, buf *[]byte) (request, error) {
	var q request
	length := 0
	for first := true; ; first = false {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return q, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			break
		}
		if first {
			method, rest, _ := bytes.Cut(line, []byte{' '})
			path, _, _ := bytes.Cut(rest, []byte{' '})
			q.get = string(method) == "GET"
			q.collector = string(path) == "/collector/v1/traces"
			q.path = string(path) == "/v1/chat/completions" || string(path) == "/v1/messages" || string(path) == "/v1/responses"
			continue
		}
		name, value, _ := bytes.Cut(line, []byte{':'})
		value = bytes.TrimSpace(value)
		switch {
		case bytes.EqualFold(name, []byte("content-length")):
			if length, err = strconv.Atoi(string(value)); err != nil || length < 0 {
				return q, errors.New("content-length")
			}
		case bytes.EqualFold(name, []byte("authorization")), bytes.EqualFold(name, []byte("x-api-key")):
			q.credential = string(bytes.TrimPrefix(value, []byte("Bearer "))) == Credential
		case bytes.EqualFold(name, []byte("transfer-encoding")):
			return q, errors.New("request body without a length")
		}
	}
	if cap(*buf) < length {
		*buf = make([]byte, length)
	}
	body := (*buf)[:length]
	if _, err := io.ReadFull(r, body); err != nil {
		return q, err
	}
	q.stream = bytes.Contains(body, []byte(`"stream":true`))
	return q, nil
}

// stream writes a stream and reports whether the connection can serve another request.
func (s *Server) stream(c net.Conn, r *running) bool {
	// The opening includes the first text event.
	if _, err := c.Write(s.dialect.opening); err != nil {
		return false
	}
	s.events.Add(1)
	var err error
	switch {
	case r.Hold:
		disconnected := make(chan struct{})
		go func() {
			// The client sends nothing while it reads a stream, so only a disconnect or the deadline below ends this
			// read.
			_, _ = c.Read(make([]byte, 1))
			close(disconnected)
		}()
		select {
		case <-disconnected:
			return false
		case <-r.end:
		}
		if err := c.SetReadDeadline(time.Unix(1, 0)); err != nil {
			return false
		}
		<-disconnected
		err = c.SetReadDeadline(time.Time{})
	case r.pace != nil:
		err = r.pace.run(c, s.dialect.events)
	default:
		err = s.writeUnpaced(c, r)
	}
	if err != nil {
		return false
	}
	_, err = c.Write(s.dialect.closing)
	return err == nil
}

// writeUnpaced writes events without pauses.
func (s *Server) writeUnpaced(c net.Conn, r *running) error {
	var block []byte
	for n := 1; n < r.Events; n++ {
		e := s.dialect.events[n%len(s.dialect.events)]
		s.events.Add(1)
		if r.Block == 0 {
			if _, err := c.Write(e); err != nil {
				return err
			}
			continue
		}
		for block = append(block, e...); len(block) >= r.Block; block = append(block[:0], block[r.Block:]...) {
			if _, err := c.Write(block[:r.Block]); err != nil {
				return err
			}
		}
	}
	_, err := c.Write(block)
	return err
}

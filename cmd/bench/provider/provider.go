// Package provider is the provider of the comparison: an HTTP server that answers every completion alike, in the dialect
// of OpenAI or of Anthropic, whole or as a stream of events in the shape of recorded ones.
//
// It does as little as it can for an answer, so that two cores are enough for it, the gateway and the load. It looks at
// requests only as far as a gateway must get them right: path, credential, and whether a stream is asked for.
//
// Concurrency: one goroutine a connection, and one that paces the events of all streams.
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

// Credential is what the provider expects of a gateway. A bare proxy passes its client's on: that is the same one.
const Credential = "sk-bench-0123456789abcdef"

// Scenario is how completions are answered.
type Scenario struct {
	Stream bool
	// Of a stream:
	Events int           // events of text; 0: until EndStreams
	Every  time.Duration // between two of them; 0: as fast as they can be written
	Block  int           // bytes of a write, however events lie in it; 0: a write for each event
	Hold   bool          // silence behind the first event, until EndStreams or the client leaves
}

// Server answers in one dialect.
type Server struct {
	dialect  *dialect
	scenario atomic.Pointer[running]
	events   atomic.Int64 // of text, written
	refused  atomic.Int64 // requests that no gateway should send

	mu    sync.Mutex
	conns map[net.Conn]struct{}
	wait  sync.WaitGroup
}

// running is a scenario in force.
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

// Play puts a scenario in force for requests to come. Streams of the last one are ended.
func (s *Server) Play(next Scenario) {
	r := &running{Scenario: next, end: make(chan struct{})}
	if next.Stream && next.Every > 0 {
		r.pace = newPace(next.Every, &s.events, r.end)
	}
	if old := s.scenario.Swap(r); old != nil {
		old.stop()
	}
}

// EndStreams lets all open streams end as they should.
func (s *Server) EndStreams() { s.scenario.Load().stop() }

func (r *running) stop() { r.once.Do(func() { close(r.end) }) }

// Events is how many events of text have been written.
func (s *Server) Events() int64 { return s.events.Load() }

// Refused is how many requests were none that a provider takes.
func (s *Server) Refused() int64 { return s.refused.Load() }

// Serve serves ln until it is closed, and then ends all connections.
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

// bodies is the memory that requests are read into. Held streams keep none.
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
		var answer []byte
		switch {
		case q.get:
			answer = s.dialect.models
		case !q.path || !q.credential || q.stream != running.Stream:
			s.refused.Add(1)
			answer = s.dialect.refusal
		case !running.Stream:
			answer = s.dialect.whole
		}
		bodies.Put(buf)
		if answer == nil {
			if !s.stream(c, running) {
				return
			}
			continue
		}
		if _, err := c.Write(answer); err != nil {
			return
		}
	}
}

// request is what the provider looks at in a request.
type request struct {
	get, path, credential, stream bool
}

// readRequest reads a request whole.
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
			q.path = string(path) == "/v1/chat/completions" || string(path) == "/v1/messages"
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
			return q, errors.New("a body without a length")
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

// stream writes a stream, and says whether the connection can serve another request.
func (s *Server) stream(c net.Conn, r *running) bool {
	// What leads up to the first event of text leaves with it.
	if _, err := c.Write(s.dialect.opening); err != nil {
		return false
	}
	s.events.Add(1)
	var err error
	switch {
	case r.Hold:
		left := make(chan struct{})
		go func() {
			// A client that waits for a stream says nothing more, so what ends this read is its departure, or the deadline.
			_, _ = c.Read(make([]byte, 1))
			close(left)
		}()
		select {
		case <-left:
			return false
		case <-r.end:
		}
		if err := c.SetReadDeadline(time.Unix(1, 0)); err != nil {
			return false
		}
		<-left
		err = c.SetReadDeadline(time.Time{})
	case r.pace != nil:
		err = r.pace.run(c, s.dialect.events)
	default:
		err = s.rush(c, r)
	}
	if err != nil {
		return false
	}
	_, err = c.Write(s.dialect.closing)
	return err == nil
}

// rush writes events without a pause.
func (s *Server) rush(c net.Conn, r *running) error {
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

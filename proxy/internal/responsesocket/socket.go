// Package responsesocket serves the Responses API over a WebSocket. Each response.create message becomes the same
// request as a POST, and each event of its response becomes a text frame.
//
// It owns a client's socket: reading its messages, the order of its turns (one after the other in a lane, which is a
// stream_id; turns of different lanes at the same time), the responses that it holds because they are not stored, its
// timeouts and its end. How a turn is served is up to Options.Serve, which treats it as any other request. Frames are
// those of package websocket.
//
// Concurrency: the goroutine of WriteStream reads. Each lane with a turn has a goroutine, which writes; writes are
// serialized by a lock. WriteStream returns when all of them have ended.
package responsesocket

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/admission"
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/downstream"
	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
	"github.com/sluice-gateway/sluice/proxy/internal/responses"
	"github.com/sluice-gateway/sluice/proxy/internal/websocket"
)

// Options are what a socket needs of the gateway.
type Options struct {
	Key         string        // name of the client's key
	MaxMessage  int           // maximum size of a message
	IdleTimeout time.Duration // how long a socket may be without a turn
	MaxAge      time.Duration // how long after its start a socket accepts turns

	Memory  *responses.Memory // holds responses that are not stored
	Limiter *admission.Limiter

	// Serve serves a turn as a request with a body on c. It returns an error response, or nil if the response is streamed:
	// then c writes it.
	Serve    func(c *downstream.Conn, body *Body, warmUp bool) *Rejection
	Draining func() bool
	Panicked func(*rescue.Error)
}

const (
	// pingInterval is how long a client may be silent before it is pinged, and then until it is gone. It is shorter than
	// the idle timeouts of most proxies.
	pingInterval = 25 * time.Second

	// closeTimeout is how long a client has to respond to a close frame.
	closeTimeout = time.Second
)

// ending is why a socket accepts no more turns, and is closed after the last one.
type ending struct {
	code    websocket.Code
	reason  string
	refusal *apierror.Error // of further turns
}

// The reasons that are not errors of the client.
var (
	restart = ending{websocket.ServiceRestart, "the gateway is shutting down", &apierror.Error{
		Status: 503, Kind: apierror.KindServiceUnavailable, Code: "gateway_shutdown", Message: "The gateway is shutting down.",
	}}
	tooOld = ending{websocket.NormalClosure, "the connection has reached its maximum age", apierror.Invalid(
		"websocket_connection_limit_reached", "", "The connection has reached its maximum age. Open another one.")}
	idle = ending{websocket.NormalClosure, "idle", tooOld.refusal}
)

// Socket is a client's WebSocket. It implements downstream.Request.
type Socket struct {
	o        Options
	conn     *downstream.Conn
	id       string
	response []byte // accepts the handshake; nil once it is written
	reader   websocket.Reader
	gone     atomic.Bool
	turns    sync.WaitGroup
	now      func() time.Time // time.Now, except in tests

	writing sync.Mutex // held while a frame is written
	closed  bool       // a close frame has been written, after which nothing may follow

	// Used by the goroutine that reads.
	opened, heard, pinged, began time.Time // pinged is zero if the client has sent something since, began without a message
	shutdowns                    int
	counted                      int64 // memory of the message that is being read

	mu        sync.Mutex
	lanes     map[string]*lane
	running   int // lanes with a turn
	waiting   int // turns
	idleSince time.Time
	ending    *ending
	closedAt  time.Time // when a close frame was sent; zero before
	held      []string  // IDs of responses, oldest first

	checking sync.Mutex // held while the connection is checked
}

// New returns a socket for a connection that is to be upgraded. response is the head that accepts the handshake.
func New(c *downstream.Conn, response []byte, o Options) *Socket {
	s := &Socket{o: o, conn: c, id: clientapi.RandomID("ws_"), response: response, now: time.Now, lanes: make(map[string]*lane)}
	s.reader = websocket.Reader{Source: source{s}, MaxMessage: o.MaxMessage, Grow: s.grow, Control: s.control}
	return s
}

// Delivered implements downstream.Request. WriteStream knows itself how the socket ended.
func (s *Socket) Delivered(bool) {}

// WriteStream implements downstream.Request: it serves the socket until it is closed.
func (s *Socket) WriteStream() (keepAlive bool, err error) {
	defer s.dropHeld()
	defer s.turns.Wait()
	defer s.gone.Store(true)
	defer rescue.Recover(s.o.Panicked)
	err = s.write(s.response)
	s.response = nil
	s.conn.AwaitRelease()
	if err == nil {
		s.opened = s.now()
		s.heard, s.idleSince = s.opened, s.opened
		err = s.serve()
	}
	return false, err
}

// serve reads messages until the socket is closed.
func (s *Socket) serve() error {
	for {
		op, message, err := s.reader.ReadMessage(nil)
		if err != nil {
			s.o.Limiter.Shrink(&s.counted)
			return s.end(err)
		}
		if op != websocket.Text {
			s.o.Limiter.Shrink(&s.counted)
			return s.end(&websocket.ViolationError{Code: websocket.UnsupportedData, Reason: "messages must be text"})
		}
		c, e := parseCreate(message)
		q := queued{c, s.counted}
		s.counted = 0
		if e != nil {
			s.o.Limiter.Shrink(&q.counted)
			s.writeError(e, c.lane)
			continue
		}
		s.enqueue(q)
	}
}

// end closes the socket after an error of the reader.
func (s *Socket) end(err error) error {
	if closed, ok := errors.AsType[*websocket.ClosedError](err); ok {
		s.writeClose(closed.Code, "")
		return nil
	}
	if violation, ok := errors.AsType[*websocket.ViolationError](err); ok {
		s.writeClose(violation.Code, violation.Reason)
		s.conn.LingerOnClose(true)
		return err
	}
	if err == errEnded {
		s.turns.Wait() // they write the last events of a shutdown
		if e := s.endingNow(); e != nil {
			s.writeClose(e.code, e.reason)
		}
		return nil
	}
	return err
}

// The errors of source.
var (
	errEnded  = errors.New("the socket has ended")
	errSilent = errors.New("no response to a ping")
)

// source reads from the connection, and handles timeouts and shutdowns.
type source struct{ s *Socket }

// Read implements io.Reader.
func (r source) Read(p []byte) (int, error) {
	s := r.s
	for {
		if err := s.setDeadline(s.now()); err != nil {
			return 0, err
		}
		n, err := s.conn.ReadUpgraded(p)
		switch {
		case n > 0:
			s.heard, s.pinged = s.now(), time.Time{}
			return n, nil
		case errors.Is(err, downstream.ErrShutdown):
			s.setEnding(&restart)
			if s.shutdowns++; s.shutdowns > 1 {
				return 0, errEnded // the shutdown deadline has passed
			}
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return 0, err
		}
	}
}

// setDeadline does what is due at this time, and sets the deadline of the next read. It returns an error if the socket
// ends.
func (s *Socket) setDeadline(now time.Time) error {
	if age := s.opened.Add(s.o.MaxAge); !now.Before(age) {
		s.setEnding(&tooOld)
	}
	if s.reader.Began() && s.began.IsZero() {
		s.began = now
	} else if !s.reader.Began() {
		s.began = time.Time{}
	}
	if !s.began.IsZero() && !now.Before(s.began.Add(s.conn.ReadTimeout())) {
		return &websocket.ViolationError{Code: websocket.PolicyViolation, Reason: "the message did not arrive in time"}
	}
	silent := s.heard
	if !s.pinged.IsZero() {
		silent = s.pinged
	}
	if !now.Before(silent.Add(pingInterval)) {
		if !s.pinged.IsZero() {
			return errSilent
		}
		s.pinged, silent = now, now
		if err := s.write(websocket.AppendFrame(nil, websocket.Ping, nil)); err != nil {
			return err
		}
	}
	next := silent.Add(pingInterval)
	if !s.began.IsZero() {
		next = earliest(next, s.began.Add(s.conn.ReadTimeout()))
	}
	return s.awaitEnd(now, next)
}

// awaitEnd sets the deadline of the next read to next, or to an earlier time at which something is due. If the socket is
// to end and has no turn, awaitEnd writes the close frame, and waits for that of the client.
func (s *Socket) awaitEnd(now, next time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	resting := s.running == 0 && s.began.IsZero()
	if idleAt := s.idleSince.Add(s.o.IdleTimeout); resting && s.ending == nil {
		if next = earliest(next, idleAt); !now.Before(idleAt) {
			s.ending = &idle
		}
	}
	if s.ending == nil {
		next = earliest(next, s.opened.Add(s.o.MaxAge))
	} else if resting && s.closedAt.IsZero() {
		s.closedAt = now
		if s.ending == &tooOld {
			s.writeError(tooOld.refusal, "")
		}
		s.writeClose(s.ending.code, s.ending.reason)
	}
	if !s.closedAt.IsZero() {
		if next = s.closedAt.Add(closeTimeout); !now.Before(next) {
			return errEnded
		}
	}
	s.conn.SetUpgradedDeadline(next)
	return nil
}

// setEnding makes the socket end after its turns.
func (s *Socket) setEnding(e *ending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending == nil {
		s.ending = e
	}
}

func (s *Socket) endingNow() *ending {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ending
}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// grow reserves memory for a message.
func (s *Socket) grow(n int) error {
	if s.o.Limiter.Grow(&s.counted, n) != nil {
		return &websocket.ViolationError{Code: websocket.TryAgainLater, Reason: "too much memory is held by large messages"}
	}
	return nil
}

// control handles a ping or pong.
func (s *Socket) control(op websocket.Opcode, payload []byte) error {
	if op != websocket.Ping {
		return nil
	}
	return s.write(websocket.AppendFrame(nil, websocket.Pong, payload))
}

// write writes whole frames. After an error or a close frame, nothing can be written.
func (s *Socket) write(frames []byte) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.closed {
		return errEnded
	}
	_, err := s.conn.Write(frames)
	if err != nil {
		s.abort()
	}
	return err
}

// writeClose writes a close frame, unless one has been written.
func (s *Socket) writeClose(code websocket.Code, reason string) {
	s.writing.Lock()
	defer s.writing.Unlock()
	if !s.closed {
		s.closed = true
		_, _ = s.conn.Write(websocket.AppendClose(nil, code, reason)) // the connection is closed in any case
	}
}

// abort ends the socket, and cancels its turns.
func (s *Socket) abort() {
	s.gone.Store(true)
	s.conn.ForceClose()
}

// isGone reports whether the client is gone.
func (s *Socket) isGone() bool {
	s.checking.Lock()
	defer s.checking.Unlock()
	if !s.gone.Load() && s.conn.Disconnected() {
		s.gone.Store(true)
	}
	return s.gone.Load()
}

// dropHeld releases the responses that the socket holds.
func (s *Socket) dropHeld() {
	for _, id := range s.held {
		s.o.Memory.Drop(s.id, id)
	}
}

var _ downstream.Request = (*Socket)(nil)

package responsesocket

import (
	"bytes"
	"io"
	"slices"
	"strconv"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/downstream"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
	"github.com/sluice-gateway/sluice/proxy/internal/responses"
	"github.com/sluice-gateway/sluice/proxy/internal/websocket"
)

const (
	// maxLanes is how many different lanes a socket may use, and maxRunning how many turns run at the same time.
	maxLanes   = 32
	maxRunning = 16

	// maxWaiting is how many turns may wait for earlier ones of their lanes.
	maxWaiting = 16

	// maxHeld is how many responses a socket holds.
	maxHeld = 16
)

// queued is a turn that waits for earlier ones of its lane.
type queued struct {
	create  *create
	counted int64 // memory that the limiter has counted
}

// lane runs the turns of one stream_id one after the other.
type lane struct {
	running bool
	waiting []queued
}

// enqueue starts a turn, or makes it wait for earlier ones of its lane.
func (s *Socket) enqueue(q queued) {
	s.mu.Lock()
	e := s.admit(q)
	s.mu.Unlock()
	if e != nil {
		s.o.Limiter.Shrink(&q.counted)
		s.writeError(e, q.create.lane)
	}
}

// admit is enqueue with s.mu held. It returns an error if there are too many lanes or turns.
func (s *Socket) admit(q queued) *apierror.Error {
	if s.ending != nil {
		return s.ending.refusal
	}
	name := q.create.lane
	l := s.lanes[name]
	switch {
	case l == nil && len(s.lanes) == maxLanes:
		return streamLimit("This connection has used %d streams: reuse one of them, or open another connection.", maxLanes)
	case (l == nil || !l.running) && s.running == maxRunning:
		return streamLimit("%d responses are in progress on this connection.", maxRunning)
	case l != nil && l.running && s.waiting == maxWaiting:
		return streamLimit("%d responses wait for earlier ones on this connection.", maxWaiting)
	case l == nil:
		l = new(lane)
		s.lanes[name] = l
	}
	if l.running {
		l.waiting = append(l.waiting, q)
		s.waiting++
		return nil
	}
	l.running = true
	s.running++
	s.turns.Go(func() { s.runLane(l, q) })
	return nil
}

func streamLimit(format string, n int) *apierror.Error {
	e := apierror.Invalid("websocket_stream_limit_reached", "stream_id", format, n)
	e.Status = 429
	return e
}

// runLane runs the turns of a lane until none waits.
func (s *Socket) runLane(l *lane, q queued) {
	for more := true; more; q, more = s.nextTurn(l) {
		if s.gone.Load() {
			s.o.Limiter.Shrink(&q.counted)
			continue
		}
		if e := s.endingNow(); e != nil {
			s.o.Limiter.Shrink(&q.counted)
			s.writeError(e.refusal, q.create.lane)
			continue
		}
		s.runTurn(q)
	}
}

// nextTurn returns the next turn of a lane. Without one, the lane stops running.
func (s *Socket) nextTurn(l *lane) (q queued, ok bool) {
	draining := s.o.Draining()
	s.mu.Lock()
	defer s.mu.Unlock()
	if draining && s.ending == nil {
		s.ending = &restart
	}
	if len(l.waiting) > 0 {
		q = l.waiting[0]
		l.waiting = slices.Delete(l.waiting, 0, 1)
		s.waiting--
		return q, true
	}
	l.running, l.waiting = false, nil
	if s.running--; s.running == 0 {
		s.idleSince = s.now()
		s.conn.SetUpgradedDeadline(s.idleSince) // the reader closes the socket, or starts the idle timeout
	}
	return q, false
}

// turn is a response.create message in progress. It writes the events of its response as frames.
type turn struct {
	socket  *Socket
	lane    string
	hold    bool
	held    responses.Held // of a turn to hold
	counted int64
	frames  []byte
}

// runTurn serves a turn: first on a goroutine of its own, whose stack grows as for any request, and then here, where it
// stays small while the response is streamed.
func (s *Socket) runTurn(q queued) {
	t := &turn{socket: s, lane: q.create.lane, hold: q.create.hold, counted: q.counted}
	defer s.o.Limiter.Shrink(&t.counted)
	defer rescue.Recover(s.o.Panicked)
	body, e := t.prepare(q.create)
	if e != nil {
		s.writeError(e, t.lane)
		return
	}
	warmUp := q.create.warmUp
	q = queued{}
	c := s.conn.NewTurn(t)
	served := make(chan *Rejection, 1)
	go func() {
		var r *Rejection
		defer func() { served <- r }()
		defer rescue.Recover(func(p *rescue.Error) {
			s.o.Panicked(p)
			s.abort()
		})
		r = s.o.Serve(c, body, warmUp)
	}()
	rejection := <-served
	streamed, err := c.Respond()
	switch {
	case err != nil:
		s.abort()
	case !streamed && rejection != nil:
		_ = s.write(websocket.AppendFrame(nil, websocket.Text, appendRejection(nil, rejection, t.lane)))
	}
}

// prepare returns the body of the turn's request, which releases its memory when it has been read.
func (t *turn) prepare(c *create) (*Body, *apierror.Error) {
	s := t.socket
	var previous *responses.Held
	size := len(c.message)
	if c.previous != "" {
		if h, ok := s.o.Memory.Held(s.id, c.previous); ok {
			previous = &h
			size += len(h.Input) + len(h.Output) + len(h.Members)
		}
	}
	most := len(c.message) + size
	if c.hold {
		most += size
	}
	if e := s.o.Limiter.Grow(&t.counted, most); e != nil {
		return nil, e
	}
	if c.hold {
		t.held.Input = c.appendInput(nil, previous)
		if c.warmUp {
			t.held.Members = c.appendMembers(nil)
		}
	}
	b := &Body{rest: c.appendBody(make([]byte, 0, size+64), previous)}
	b.size = len(b.rest)
	if !t.hold {
		b.read = func() { s.o.Limiter.Shrink(&t.counted) }
	}
	return b, nil
}

// Body is the body of a turn's request.
type Body struct {
	rest []byte
	size int
	read func() // called when it has been read; may be nil
}

// Size returns the length of the whole body.
func (b *Body) Size() int { return b.size }

// Read implements io.Reader. It releases the memory with the last byte.
func (b *Body) Read(p []byte) (int, error) {
	if len(b.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, b.rest)
	if b.rest = b.rest[n:]; len(b.rest) == 0 {
		b.rest = nil
		if b.read != nil {
			b.read()
			b.read = nil
		}
	}
	return n, nil
}

// WriteEvents implements downstream.Turn.
func (t *turn) WriteEvents(events []byte) error {
	for len(events) > 0 {
		event, rest, _ := bytes.Cut(events, []byte("\n\n"))
		events = rest
		data := appendData(nil, event)
		if len(data) == 0 {
			continue
		}
		if t.hold {
			t.holdResponse(event, data)
		}
		t.frames = t.appendEvent(t.frames, data)
	}
	err := t.socket.write(t.frames)
	if t.frames = t.frames[:0]; cap(t.frames) > maxKept {
		t.frames = nil
	}
	return err
}

// maxKept is the maximum capacity of a buffer that is kept between writes.
const maxKept = 4 << 10

// appendData appends the data of an event.
func appendData(dst, event []byte) []byte {
	for line := range bytes.SplitSeq(event, []byte("\n")) {
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			if len(dst) > 0 {
				dst = append(dst, '\n')
			}
			dst = append(dst, bytes.TrimPrefix(data, []byte(" "))...)
		}
	}
	return dst
}

// appendEvent appends the frame of an event, with the ID of its lane.
func (t *turn) appendEvent(dst, data []byte) []byte {
	open := bytes.IndexByte(data, '{')
	if t.lane == "" || open < 0 {
		return websocket.AppendFrame(dst, websocket.Text, data)
	}
	rest := data[open+1:]
	member := append(append([]byte(`{"stream_id":"`), t.lane...), '"')
	if trimmed := bytes.TrimLeft(rest, " \t\r\n"); len(trimmed) > 0 && trimmed[0] != '}' {
		member = append(member, ',')
	}
	dst = websocket.AppendHeader(dst, websocket.Text, len(member)+len(rest))
	return append(append(dst, member...), rest...)
}

// holdResponse holds the response if the event completes it. It is called before the event is written, because the
// client's next message may refer to the response.
func (t *turn) holdResponse(event, data []byte) {
	if name, _, _ := bytes.Cut(event, []byte("\n")); !bytes.Contains(name, []byte("response.completed")) && !bytes.Contains(name, []byte("response.incomplete")) {
		return
	}
	var d jsondoc.Doc
	if d.Parse(data, jsondoc.Limits{Loose: true}) != nil {
		return
	}
	r := d.Root().Get("response")
	id := r.Get("id").Text()
	if id == "" {
		return
	}
	t.held.Output = responses.AppendReplayed(nil, r.Get("output"))
	t.hold = false
	t.socket.holdResponse(id, t.held)
	t.held = responses.Held{}
}

// holdResponse holds a response, and drops the oldest one beyond maxHeld.
func (s *Socket) holdResponse(id string, h responses.Held) {
	if !s.o.Memory.Hold(s.o.Key, s.id, id, h) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = append(s.held, id)
	if len(s.held) > maxHeld {
		s.o.Memory.Drop(s.id, s.held[0])
		s.held = slices.Delete(s.held, 0, 1)
	}
}

// Ping implements downstream.Turn.
func (t *turn) Ping() error { return t.socket.write(websocket.AppendFrame(nil, websocket.Ping, nil)) }

// Gone implements downstream.Turn.
func (t *turn) Gone() bool { return t.socket.isGone() }

// Rejection is an error response to a turn: nothing of its response has been streamed.
type Rejection struct {
	Status  int
	Headers [][2]string // names and values in printable ASCII
	Body    []byte      // a JSON object with the member error
}

// appendRejection appends the error message of a rejection.
func appendRejection(dst []byte, r *Rejection, lane string) []byte {
	dst = strconv.AppendInt(append(dst, `{"type":"error","status":`...), int64(r.Status), 10)
	if lane != "" {
		dst = append(append(append(dst, `,"stream_id":"`...), lane...), '"')
	}
	for i, h := range r.Headers {
		if dst = append(dst, `,"`...); i == 0 {
			dst = append(dst[:len(dst)-1], `"headers":{"`...)
		}
		dst = append(append(dst, h[0]...), `":"`...)
		dst = append(jsondoc.AppendEscaped(dst, []byte(h[1])), '"')
	}
	if len(r.Headers) > 0 {
		dst = append(dst, '}')
	}
	return append(append(dst, ','), r.Body[1:]...)
}

// writeError writes an error message that no request was served for.
func (s *Socket) writeError(e *apierror.Error, lane string) {
	r := &Rejection{Status: e.Status, Body: clientapi.AppendErrorBody(nil, e)}
	_ = s.write(websocket.AppendFrame(nil, websocket.Text, appendRejection(nil, r, lane)))
}

var _ downstream.Turn = (*turn)(nil)

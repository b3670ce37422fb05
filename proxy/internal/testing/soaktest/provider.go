package soaktest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/testing/loadtest"
)

// The timeouts of the gateway's providers. Silent and Hangs last longer, and Pauses is shorter (pause). The timeouts
// are long, because the machine may be busy.
const (
	firstByteTimeout = 6 * time.Second
	idleTimeout      = 6 * time.Second
	pause            = 700 * time.Millisecond
)

// errClose closes the connection.
var errClose = errors.New("close the connection")

// respond is the provider's part of a request.
func (r *Run) respond(e *loadtest.Exchange) error {
	if e.Request.Method == "GET" {
		return r.listModels(e)
	}
	seq, ok := parseSeq(e.Body)
	if !ok {
		r.Violation("the provider received a request that no client sent: %.200q", e.Body)
		return errClose
	}
	p := NewPlan(r.Seed, seq)
	r.ledger.recordReached(seq)
	fault := p.Fault
	if p.Model == modelEither && strings.HasPrefix(e.Request.URL.Path, "/anthropic") {
		fault = None // the fallback succeeds
	}
	w := &responseWriter{Exchange: e, run: r, plan: p, fault: fault, dialect: dialectFor(e.Request.URL.Path)}
	return w.respond()
}

// parseSeq returns the number of a request, which is in its prompt.
func parseSeq(body []byte) (uint64, bool) {
	_, rest, ok := bytes.Cut(body, []byte(`"`+idPrefix))
	end := bytes.IndexByte(rest, '"')
	if !ok || end < 0 {
		return 0, false
	}
	seq, err := strconv.ParseUint(string(rest[:end]), 10, 64)
	return seq, err == nil
}

// listModels responds with an empty list of models.
func (r *Run) listModels(e *loadtest.Exchange) error {
	const none = `{"object":"list","data":[]}`
	_, err := fmt.Fprintf(e, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(none), none)
	return err
}

// responseWriter writes one response.
type responseWriter struct {
	*loadtest.Exchange
	run     *Run
	plan    *Plan
	fault   Fault
	dialect dialectWriter
}

func (w *responseWriter) respond() error {
	switch w.fault {
	case StaleConn:
		if w.Reused {
			return w.reset()
		}
	case ResetsAtOnce:
		return w.reset()
	case EndsAtOnce:
		return errClose
	case Status500, Status503, Status429:
		return w.writeError(map[Fault]int{Status500: 500, Status503: 503, Status429: 429}[w.fault])
	case NotHTTP:
		_, _ = w.Write([]byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 is not HTTP\r\n\r\n"))
		return errClose
	case HTMLPage:
		const page = "<!doctype html><title>Login</title>"
		_, err := fmt.Fprintf(w, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n%s", len(page), page)
		return err
	case Silent:
		return w.awaitEnd(firstByteTimeout)
	}
	if w.plan.Behaviour == LeavesWaiting {
		return w.awaitEnd(noticeTimeout)
	}
	if w.plan.upstreamStreams() {
		return w.writeStream()
	}
	return w.writeDocument()
}

// reset makes the returned error close the connection with a RST.
func (w *responseWriter) reset() error {
	if c, ok := w.Conn.(*net.TCPConn); ok {
		_ = c.SetLinger(0)
	}
	return errClose
}

// awaitEnd writes nothing until the gateway closes the connection, which it must do within timeout.
func (w *responseWriter) awaitEnd(timeout time.Duration) error {
	_ = w.SetReadDeadline(time.Now().Add(timeout + tolerance))
	began := time.Now()
	n, err := w.Read(make([]byte, 1))
	var late net.Error
	switch {
	case n > 0:
		w.run.Violation("the gateway sent more bytes before the response: %s", w.plan)
	case errors.As(err, &late) && late.Timeout():
		w.run.Violation("the gateway still waits for the response after %s: %s", time.Since(began), w.plan)
	}
	if w.plan.leaves() {
		w.run.disconnectLatency.Add(time.Since(began))
	}
	return errClose
}

// noticeTimeout is how long the gateway may take to notice a client's disconnect.
const noticeTimeout = time.Second

// tolerance is how much longer everything may take on a busy machine.
const tolerance = 10 * time.Second

func (w *responseWriter) writeError(code int) error {
	const body = `{"error":{"message":"Planned error.","type":"soak","code":"soak"}}`
	_, err := fmt.Fprintf(w, "HTTP/1.1 %d Soak\r\nContent-Type: application/json\r\nRetry-After: 1\r\nContent-Length: %d\r\n\r\n%s", code, len(body), body)
	return err
}

// writeDocument writes a non-streaming response.
func (w *responseWriter) writeDocument() error {
	body := w.dialect.document(w.plan)
	if w.fault == InvalidData {
		body = body[:len(body)-2] + "]"
	}
	head := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", len(body))
	if w.fault.inBody() {
		return w.fail(head + body[:len(body)/2])
	}
	if w.fault == Pauses {
		if err := w.send(head + body[:1]); err != nil {
			return err
		}
		head, body = "", body[1:]
		w.wait(pause)
	}
	w.run.ledger.recordDelivery(w.plan.Seq, w.fault)
	if err := w.send(head + body); err != nil {
		return err
	}
	return w.afterResponse()
}

// inBody reports whether the fault is an end or a stall of the connection within the body.
func (f Fault) inBody() bool { return f == Resets || f == Ends || f == Hangs }

// fail sends text, and then ends or stalls the connection as the fault says.
func (w *responseWriter) fail(text string) error {
	if err := w.send(text); err != nil {
		return err
	}
	switch w.fault {
	case Resets:
		// A RST discards the bytes that the gateway has not read, which may be all.
		return w.reset()
	case Hangs:
		return w.awaitEnd(idleTimeout)
	}
	return errClose
}

// send writes text, a few bytes at a time if the fault is SmallWrites.
func (w *responseWriter) send(text string) error {
	size := len(text)
	if w.fault == SmallWrites {
		size = 7
	}
	for len(text) > 0 {
		n := min(size, len(text))
		if _, err := io.WriteString(w, text[:n]); err != nil {
			return err
		}
		text = text[n:]
	}
	return nil
}

// writeStream writes a streaming response.
func (w *responseWriter) writeStream() error {
	if err := w.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"); err != nil {
		return err
	}
	p := w.plan
	faultAt := -1
	if w.fault == Pauses || w.fault > harmless {
		faultAt = p.parts / 2
	}
	if err := w.writeEvents(w.dialect.begin(p)...); err != nil {
		return err
	}
	for n := range p.parts {
		if n > 0 {
			w.wait(p.gap)
		}
		if n == faultAt {
			switch w.fault {
			case Pauses:
				w.wait(pause)
			case InvalidData:
				return w.writeEvents("data: {\"choices\":[}\n\n")
			case Traps:
				return w.writeEvents("data: " + traps[p.text%uint64(len(traps))] + "\n\n")
			case Incomplete:
				return w.send("0\r\n\r\n")
			default:
				return w.fail("")
			}
		}
		if err := w.writeEvents(w.dialect.part(p, n)); err != nil {
			return err
		}
	}
	w.run.ledger.recordDelivery(p.Seq, w.fault)
	if err := w.writeEvents(w.dialect.end(p)...); err != nil {
		return err
	}
	if err := w.send("0\r\n\r\n"); err != nil {
		return err
	}
	return w.afterResponse()
}

// traps are the data of events that make the guest trap or run out of fuel.
var traps = []string{"panic", "bounds", "nil", "zero", "loop", "status", "recursion"}

// writeEvents writes each event as a chunk.
func (w *responseWriter) writeEvents(events ...string) error {
	for _, e := range events {
		if err := w.send(fmt.Sprintf("%x\r\n%s\r\n", len(e), e)); err != nil {
			return err
		}
	}
	return nil
}

// afterResponse injects faults after the response.
func (w *responseWriter) afterResponse() error {
	switch w.fault {
	case TrailingBytes:
		_, _ = io.WriteString(w, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nagain")
	case ClosesAfter:
		w.wait(time.Duration(w.plan.text%50) * time.Millisecond)
		return errClose
	}
	return nil
}

// wait sleeps as part of the load. Nothing else depends on the time.
func (w *responseWriter) wait(d time.Duration) {
	if d > 0 {
		<-time.After(d)
	}
}

// dialectWriter encodes responses in a provider's API.
type dialectWriter interface {
	begin(p *Plan) []string     // events before the first part
	part(p *Plan, n int) string // event of a part
	end(p *Plan) []string       // events after the last part
	document(p *Plan) string    // body of a non-streaming response
}

func dialectFor(path string) dialectWriter {
	switch {
	case strings.HasPrefix(path, "/anthropic"):
		return anthropic{}
	case strings.HasPrefix(path, "/guest"):
		return guestAPI{}
	}
	return openAI{}
}

func quote(s string) string {
	q, err := json.Marshal(s)
	if err != nil {
		panic(err) // strings can always be encoded
	}
	return string(q)
}

type openAI struct{}

func (openAI) chunk(p *Plan, delta, finish string) string {
	return fmt.Sprintf("data: {\"id\":\"up-%d\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":%s,\"finish_reason\":%s}]}\n\n", p.Seq, delta, finish)
}

func (o openAI) begin(p *Plan) []string {
	return []string{o.chunk(p, `{"role":"assistant","content":""}`, "null")}
}

func (o openAI) part(p *Plan, n int) string {
	return o.chunk(p, `{"content":`+quote(p.Part(n))+`}`, "null")
}

func (o openAI) end(p *Plan) []string {
	return []string{
		o.chunk(p, "{}", `"stop"`),
		fmt.Sprintf("data: {\"id\":\"up-%d\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"m\",\"choices\":[],\"usage\":%s}\n\n", p.Seq, o.usage(p)),
		"data: [DONE]\n\n",
	}
}

func (openAI) usage(p *Plan) string {
	return fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}`, p.prompt, p.completion, p.prompt+p.completion)
}

func (o openAI) document(p *Plan) string {
	return fmt.Sprintf(`{"id":"up-%d","object":"chat.completion","created":1700000000,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":%s},"finish_reason":"stop"}],"usage":%s}`,
		p.Seq, quote(p.Text()), o.usage(p))
}

type anthropic struct{}

func (anthropic) begin(p *Plan) []string {
	return []string{
		fmt.Sprintf("event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_%d\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m\",\"content\":[],\"stop_reason\":null,\"usage\":{\"input_tokens\":%d,\"output_tokens\":1}}}\n\n", p.Seq, p.prompt),
		"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
		"event: ping\ndata: {\"type\":\"ping\"}\n\n",
	}
}

func (anthropic) part(p *Plan, n int) string {
	return "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":" + quote(p.Part(n)) + "}}\n\n"
}

func (anthropic) end(p *Plan) []string {
	return []string{
		"event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n",
		fmt.Sprintf("event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\",\"stop_sequence\":null},\"usage\":{\"output_tokens\":%d}}\n\n", p.completion),
		"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
	}
}

func (anthropic) document(p *Plan) string {
	return fmt.Sprintf(`{"id":"msg_%d","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":%s}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":%d,"output_tokens":%d}}`,
		p.Seq, quote(p.Text()), p.prompt, p.completion)
}

// guestAPI is the guest's API, in which the data of each event is text.
type guestAPI struct{}

func (guestAPI) begin(*Plan) []string       { return nil }
func (guestAPI) part(p *Plan, n int) string { return "data: " + p.Part(n) + "\n\n" }
func (guestAPI) end(*Plan) []string         { return []string{"data: end\n\n"} }
func (guestAPI) document(*Plan) string      { return "" }

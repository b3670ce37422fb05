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

// The deadlines of the gateway's providers. Mute and Hangs last longer, Pauses does not. They are long for a provider on the
// same machine, which may be busy with other things.
const (
	firstByte = 6 * time.Second
	idle      = 6 * time.Second
	pause     = 700 * time.Millisecond
)

// errOver ends a connection whose answer is over.
var errOver = errors.New("the answer is over")

// answer is the provider's part of a request.
func (r *Run) answer(e *loadtest.Exchange) error {
	if e.Request.Method == "GET" {
		return r.list(e)
	}
	seq, ok := seqOf(e.Body)
	if !ok {
		r.Broken("a request came to the provider that no client made: %.200q", e.Body)
		return errOver
	}
	p := PlanOf(r.Seed, seq)
	r.ledger.reached(seq)
	fault := p.Fault
	if p.Model == modelEither && strings.HasPrefix(e.Request.URL.Path, "/anthropic") {
		fault = None // the second target makes good what the first one failed at
	}
	w := &writer{Exchange: e, run: r, plan: p, fault: fault, dialect: dialectOf(e.Request.URL.Path)}
	return w.answer()
}

// seqOf finds the number of a request in its prompt.
func seqOf(body []byte) (uint64, bool) {
	_, rest, ok := bytes.Cut(body, []byte(`"`+idPrefix))
	end := bytes.IndexByte(rest, '"')
	if !ok || end < 0 {
		return 0, false
	}
	seq, err := strconv.ParseUint(string(rest[:end]), 10, 64)
	return seq, err == nil
}

// list answers for the models, of which there are none.
func (r *Run) list(e *loadtest.Exchange) error {
	const none = `{"object":"list","data":[]}`
	_, err := fmt.Fprintf(e, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(none), none)
	return err
}

// writer writes one answer.
type writer struct {
	*loadtest.Exchange
	run     *Run
	plan    *Plan
	fault   Fault
	dialect dialect
}

func (w *writer) answer() error {
	switch w.fault {
	case Stale:
		if w.Reused {
			return w.reset()
		}
	case ResetsAtOnce:
		return w.reset()
	case EndsAtOnce:
		return errOver
	case Status500, Status503, Status429:
		return w.status(map[Fault]int{Status500: 500, Status503: 503, Status429: 429}[w.fault])
	case NoHTTP:
		_, _ = w.Write([]byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 is not HTTP\r\n\r\n"))
		return errOver
	case Page:
		const page = "<!doctype html><title>Login</title>"
		_, err := fmt.Fprintf(w, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n%s", len(page), page)
		return err
	case Mute:
		return w.awaitEnd(firstByte)
	}
	if w.plan.Conduct == LeavesWaiting {
		return w.awaitEnd(notices)
	}
	if w.plan.streamed() {
		return w.stream()
	}
	return w.whole()
}

// reset ends the connection with a reset.
func (w *writer) reset() error {
	if c, ok := w.Conn.(*net.TCPConn); ok {
		_ = c.SetLinger(0)
	}
	return errOver
}

// awaitEnd says nothing until the gateway ends the connection, which it must within timeout.
func (w *writer) awaitEnd(timeout time.Duration) error {
	_ = w.SetReadDeadline(time.Now().Add(timeout + grace))
	began := time.Now()
	n, err := w.Read(make([]byte, 1))
	var late net.Error
	switch {
	case n > 0:
		w.run.Broken("more came after a request that has no answer yet: %s", w.plan)
	case errors.As(err, &late) && late.Timeout():
		w.run.Broken("the gateway still waits after %s: %s", time.Since(began), w.plan)
	}
	if w.plan.leaves() {
		w.run.noticed.Add(time.Since(began))
	}
	return errOver
}

// notices is how long the gateway has to notice that a client has gone.
const notices = time.Second

// grace is how much later than planned something may happen, on a machine that is busy.
const grace = 10 * time.Second

func (w *writer) status(code int) error {
	const body = `{"error":{"message":"The soak says so.","type":"soak","code":"soak"}}`
	_, err := fmt.Fprintf(w, "HTTP/1.1 %d Soak\r\nContent-Type: application/json\r\nRetry-After: 1\r\nContent-Length: %d\r\n\r\n%s", code, len(body), body)
	return err
}

// whole writes a document.
func (w *writer) whole() error {
	body := w.dialect.document(w.plan)
	if w.fault == Garbles {
		body = body[:len(body)-2] + "]"
	}
	head := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", len(body))
	if w.fault.within() {
		return w.die(head + body[:len(body)/2])
	}
	if w.fault == Pauses {
		if err := w.send(head + body[:1]); err != nil {
			return err
		}
		head, body = "", body[1:]
		w.wait(pause)
	}
	w.run.ledger.delivers(w.plan.Seq, w.fault)
	if err := w.send(head + body); err != nil {
		return err
	}
	return w.afterResponse()
}

// within tells of a fault that breaks the connection within a body.
func (f Fault) within() bool { return f == Resets || f == Ends || f == Hangs }

// die sends what there is, and fails.
func (w *writer) die(text string) error {
	if err := w.send(text); err != nil {
		return err
	}
	switch w.fault {
	case Resets:
		// A reset takes with it what the gateway has not read, which may be all.
		return w.reset()
	case Hangs:
		return w.awaitEnd(idle)
	}
	return errOver
}

// send writes text, in crumbs where it is to be so.
func (w *writer) send(text string) error {
	size := len(text)
	if w.fault == Crumbs {
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

// stream writes events.
func (w *writer) stream() error {
	if err := w.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"); err != nil {
		return err
	}
	p := w.plan
	fails := -1
	if w.fault == Pauses || w.fault > harmless {
		fails = p.parts / 2
	}
	if err := w.events(w.dialect.begin(p)...); err != nil {
		return err
	}
	for n := range p.parts {
		if n > 0 {
			w.wait(p.gap)
		}
		if n == fails {
			switch w.fault {
			case Pauses:
				w.wait(pause)
			case Garbles:
				return w.events("data: {\"choices\":[}\n\n")
			case Traps:
				return w.events("data: " + traps[p.text%uint64(len(traps))] + "\n\n")
			case Incomplete:
				return w.send("0\r\n\r\n")
			default:
				return w.die("")
			}
		}
		if err := w.events(w.dialect.part(p, n)); err != nil {
			return err
		}
	}
	w.run.ledger.delivers(p.Seq, w.fault)
	if err := w.events(w.dialect.end(p)...); err != nil {
		return err
	}
	if err := w.send("0\r\n\r\n"); err != nil {
		return err
	}
	return w.afterResponse()
}

// traps are what makes the guest trap when it reads it, or run out of fuel.
var traps = []string{"panic", "bounds", "nil", "zero", "loop", "status", "recursion"}

func (w *writer) events(events ...string) error {
	for _, e := range events {
		if err := w.send(fmt.Sprintf("%x\r\n%s\r\n", len(e), e)); err != nil {
			return err
		}
	}
	return nil
}

// afterResponse does what the fault asks for once the response was written.
func (w *writer) afterResponse() error {
	switch w.fault {
	case Trails:
		_, _ = io.WriteString(w, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nagain")
	case Closes:
		w.wait(time.Duration(w.plan.text%50) * time.Millisecond)
		return errOver
	}
	return nil
}

// wait lets time pass, which belongs to the load and orders nothing.
func (w *writer) wait(d time.Duration) {
	if d > 0 {
		<-time.After(d)
	}
}

// dialect is how an answer is written.
type dialect interface {
	begin(p *Plan) []string
	part(p *Plan, n int) string
	end(p *Plan) []string
	document(p *Plan) string
}

func dialectOf(path string) dialect {
	switch {
	case strings.HasPrefix(path, "/anthropic"):
		return anthropic{}
	case strings.HasPrefix(path, "/guest"):
		return words{}
	}
	return openAI{}
}

func quote(s string) string {
	q, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string can be marshalled
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

// words is the API of the guest: each event is a piece of text.
type words struct{}

func (words) begin(*Plan) []string       { return nil }
func (words) part(p *Plan, n int) string { return "data: " + p.Part(n) + "\n\n" }
func (words) end(*Plan) []string         { return []string{"data: end\n\n"} }
func (words) document(*Plan) string      { return "" }

package loadtest

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// The answers here are those of an upstream that speaks the convention: the gateway's plugin openai reads them.

// StreamHead begins a streamed answer.
const StreamHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

// StreamEnd ends one: the finish reason, [DONE], and the last chunk.
var StreamEnd = chunk(event(`{}`, `"stop"`)) + chunk("data: [DONE]\n\n") + "0\r\n\r\n"

// Event is an event of text as it goes over the wire; the text is the inside of a JSON string.
func Event(text string) string { return chunk(event(`{"content":"`+text+`"}`, "null")) }

func event(delta, finish string) string {
	return `data: {"id":"load","object":"chat.completion.chunk","created":1700000000,"model":"m","choices":[{"index":0,"delta":` + delta + `,"finish_reason":` + finish + "}]}\n\n"
}

// chunk makes a chunk of a chunked body.
func chunk(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }

// Response is a whole answer as it goes over the wire; the text is the inside of a JSON string.
func Response(text string) string {
	body := `{"id":"load","object":"chat.completion","created":1700000000,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"` +
		text + `"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":12,"total_tokens":21}}`
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// asksForStream tells whether a request asks for a stream.
func asksForStream(e *Exchange) bool { return strings.Contains(string(e.Body), `"stream":true`) }

// Holder answers whole requests at once, and holds the streamed ones open: each gets a first event, then those that Tell
// sends to all, until End.
type Holder struct {
	mu   sync.Mutex
	held map[*Exchange]struct{}
	over chan struct{} // closed by End
}

// NewHolder makes a Holder.
func NewHolder() *Holder { return &Holder{held: map[*Exchange]struct{}{}, over: make(chan struct{})} }

// Respond is for Serve.
func (h *Holder) Respond(e *Exchange) error {
	if !asksForStream(e) {
		_, err := io.WriteString(e, Response("A whole answer."))
		return err
	}
	if strings.Contains(string(e.Body), Brief) {
		_, err := io.WriteString(e, StreamHead+Event("0")+StreamEnd)
		return err
	}
	over, err := h.hold(e)
	if err != nil {
		return err
	}
	<-over
	_, err = io.WriteString(e, StreamEnd)
	return err
}

// hold begins a stream. Whoever has its first event finds it among those that are held.
func (h *Holder) hold(e *Exchange) (over <-chan struct{}, err error) {
	e.Body, e.Request = nil, nil // a hundred kilobytes
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, err := io.WriteString(e, StreamHead+Event("0")); err != nil {
		return nil, err
	}
	h.held[e] = struct{}{}
	return h.over, nil
}

// Brief in a prompt asks for a stream that is not held.
const Brief = "be brief"

// Held is how many streams are held.
func (h *Holder) Held() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.held)
}

// SendEvent sends an event to all streams: its number, and when it was sent.
func (h *Holder) SendEvent(n int) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for e := range h.held {
		if _, err := io.WriteString(e, Event(fmt.Sprintf("%d@%d", n, time.Now().UnixNano()))); err != nil {
			return fmt.Errorf("event %d: %w", n, err)
		}
	}
	return nil
}

// End ends all streams as they should end, and forgets them.
func (h *Holder) End() {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.over)
	h.held, h.over = map[*Exchange]struct{}{}, make(chan struct{})
}

package loadtest

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// The responses are in the OpenAI chat completions format.

// StreamHead is the head of a streaming response.
const StreamHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

// StreamEnd is the end of a stream: the finish reason, [DONE], and the last chunk.
var StreamEnd = chunk(event(`{}`, `"stop"`)) + chunk("data: [DONE]\n\n") + "0\r\n\r\n"

// Event returns the bytes of a text event. The text is the inside of a JSON string.
func Event(text string) string { return chunk(event(`{"content":"`+text+`"}`, "null")) }

func event(delta, finish string) string {
	return `data: {"id":"load","object":"chat.completion.chunk","created":1700000000,"model":"m","choices":[{"index":0,"delta":` + delta + `,"finish_reason":` + finish + "}]}\n\n"
}

// chunk returns a chunk of a chunked body.
func chunk(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }

// Response returns the bytes of a non-streaming response. The text is the inside of a JSON string.
func Response(text string) string {
	body := `{"id":"load","object":"chat.completion","created":1700000000,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"` +
		text + `"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":12,"total_tokens":21}}`
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// asksForStream reports whether a request asks for a stream.
func asksForStream(e *Exchange) bool { return strings.Contains(string(e.Body), `"stream":true`) }

// Holder responds to non-streaming requests immediately, and holds streams open. A stream gets one event at its start,
// the events of SendEvent, and its end with End.
type Holder struct {
	mu    sync.Mutex
	held  map[*Exchange]struct{}
	ended chan struct{} // closed by End
}

// NewHolder creates a Holder.
func NewHolder() *Holder { return &Holder{held: map[*Exchange]struct{}{}, ended: make(chan struct{})} }

// Respond responds to a request. Pass it to Serve.
func (h *Holder) Respond(e *Exchange) error {
	if !asksForStream(e) {
		_, err := io.WriteString(e, Response("Hello there."))
		return err
	}
	if strings.Contains(string(e.Body), Brief) {
		_, err := io.WriteString(e, StreamHead+Event("0")+StreamEnd)
		return err
	}
	ended, err := h.hold(e)
	if err != nil {
		return err
	}
	<-ended
	_, err = io.WriteString(e, StreamEnd)
	return err
}

// hold starts a stream. When the client has the first event, Held includes the stream.
func (h *Holder) hold(e *Exchange) (ended <-chan struct{}, err error) {
	e.Body, e.Request = nil, nil // free up to 100 KB
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, err := io.WriteString(e, StreamHead+Event("0")); err != nil {
		return nil, err
	}
	h.held[e] = struct{}{}
	return h.ended, nil
}

// Brief in a prompt requests a stream that is not held.
const Brief = "be brief"

// Held returns the number of held streams.
func (h *Holder) Held() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.held)
}

// SendEvent sends an event to all streams, with its number and the time.
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

// End completes all streams.
func (h *Holder) End() {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.ended)
	h.held, h.ended = map[*Exchange]struct{}{}, make(chan struct{})
}

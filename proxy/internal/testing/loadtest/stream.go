package loadtest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// Stream is a chat completions stream of the gateway.
type Stream struct{ events *Events }

// Open sends a request for a stream and reads the head of the response.
func (c *Conn) Open(r *Request) (*Stream, error) {
	if err := c.Send(r); err != nil {
		return nil, err
	}
	resp, err := c.ReadHead()
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(resp.Body)
		return nil, fmt.Errorf("status %d: %s", resp.StatusCode, body)
	}
	return &Stream{NewEvents(resp.Body)}, nil
}

var contentMark, textEnd = []byte(`"delta":{"content":"`), []byte(`"}`)

// NextText returns the text of the next event that has one, which is valid until the next call. It returns io.EOF at
// the end of a complete stream.
func (s *Stream) NextText() ([]byte, error) {
	for {
		data, err := s.events.Next()
		switch {
		case err == io.EOF:
			return nil, io.ErrUnexpectedEOF
		case err != nil:
			return nil, err
		case string(data) == "[DONE]":
			if _, err := s.events.Next(); err != io.EOF {
				return nil, fmt.Errorf("after [DONE]: %w", err)
			}
			return nil, io.EOF
		case bytes.HasPrefix(data, []byte(`{"error"`)):
			return nil, errors.New(string(data))
		}
		_, text, ok := bytes.Cut(data, contentMark)
		end := bytes.Index(text, textEnd)
		if ok && end > 0 {
			return text[:end], nil
		}
	}
}

// AwaitHeartbeats reads until the stream has had n heartbeats. Anything else is an error.
func (s *Stream) AwaitHeartbeats(n int) error {
	for s.events.Heartbeats < n {
		line, err := s.events.read()
		if err != nil {
			return fmt.Errorf("after %d heartbeats: %w", s.events.Heartbeats, err)
		}
		if string(line) != heartbeat {
			return fmt.Errorf("%w: line %q, want a heartbeat", ErrEvent, line)
		}
		s.events.Heartbeats++
	}
	return nil
}

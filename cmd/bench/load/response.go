package load

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/sluice-gateway/sluice/cmd/bench/provider"
)

// marks are byte sequences that identify events of a dialect.
type marks struct {
	text []byte // occurs once in each text event
	end  []byte // occurs in the last event
}

var dialects = map[string]marks{
	"openai":    {[]byte(`"content":" `), []byte("data: [DONE]\n\n")},
	"anthropic": {[]byte(`"text":" `), []byte(`{"type":"message_stop"`)},
}

// responseReader reads the responses of one connection.
type responseReader struct {
	r     *bufio.Reader
	job   *Job
	event func(n int) // called with the number of text events that arrived

	text, end   search
	texts       int
	body        []byte // body of a non-streaming response
	firstLength int    // body length of the first non-streaming response, the only one that is parsed as JSON
}

func newResponseReader(r *bufio.Reader, j *Job) *responseReader {
	m := dialects[j.Dialect]
	return &responseReader{r: r, job: j, text: search{mark: m.text}, end: search{mark: m.end}}
}

// search counts occurrences of a mark in a stream that arrives in arbitrary pieces.
type search struct {
	mark []byte
	kept []byte // end of the input so far, where a mark may start
}

func (s *search) reset() { s.kept = s.kept[:0] }

// count returns the number of marks that end in p, the next piece.
func (s *search) count(p []byte) int {
	short := len(s.mark) - 1
	n := 0
	if len(s.kept) > 0 {
		s.kept = append(s.kept, p[:min(len(p), short)]...)
		n = bytes.Count(s.kept, s.mark)
	}
	n += bytes.Count(p, s.mark)
	switch {
	case len(p) >= short:
		s.kept = append(s.kept[:0], p[len(p)-short:]...)
	case len(s.kept) > short:
		s.kept = append(s.kept[:0], s.kept[len(s.kept)-short:]...)
	case len(s.kept) == 0:
		s.kept = append(s.kept, p...)
	}
	return n
}

// read reads and checks a response.
func (a *responseReader) read() error {
	length, err := a.head()
	if err != nil {
		return err
	}
	if a.job.Stream != (length < 0) {
		return errors.New("got a non-streaming response instead of a stream, or the reverse")
	}
	if a.job.Stream {
		return a.stream()
	}
	if cap(a.body) < length {
		a.body = make([]byte, length)
	}
	a.body = a.body[:length]
	if _, err := io.ReadFull(a.r, a.body); err != nil {
		return err
	}
	if !bytes.Contains(a.body, []byte(provider.Closing)) {
		return fmt.Errorf("incomplete text: %.200s", a.body)
	}
	if a.firstLength == 0 {
		if !json.Valid(a.body) {
			return errors.New("the response is not JSON")
		}
		a.firstLength = length
	}
	if length != a.firstLength {
		return fmt.Errorf("response has %d bytes, the first had %d", length, a.firstLength)
	}
	return nil
}

// head reads a response head and returns the length of the body, or -1 if the body is chunked.
func (a *responseReader) head() (length int, err error) {
	length = -2
	for first := true; ; first = false {
		line, err := a.r.ReadSlice('\n')
		if err != nil {
			return 0, unexpected(err, first)
		}
		line = bytes.TrimRight(line, "\r\n")
		switch name, value, _ := bytes.Cut(line, []byte{':'}); {
		case first:
			if !bytes.HasPrefix(line, []byte("HTTP/1.1 200 ")) {
				rest, _ := a.r.Peek(a.r.Buffered())
				return 0, fmt.Errorf("%s %.600s", line, rest)
			}
		case len(line) == 0:
			if length == -2 {
				return 0, errors.New("response without a length")
			}
			return length, nil
		case bytes.EqualFold(name, []byte("content-length")):
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil || length < 0 {
				return 0, fmt.Errorf("content-length %q", value)
			}
		case bytes.EqualFold(name, []byte("transfer-encoding")):
			length = -1
		}
	}
}

// unexpected turns io.EOF into io.ErrUnexpectedEOF unless EOF is allowed.
func unexpected(err error, allowed bool) error {
	if err == io.EOF && !allowed {
		return io.ErrUnexpectedEOF
	}
	return err
}

// stream reads a chunked stream of events.
func (a *responseReader) stream() error {
	a.text.reset()
	a.end.reset()
	a.texts = 0
	ended := 0
	for {
		line, err := a.r.ReadSlice('\n')
		if err != nil {
			return unexpected(err, false)
		}
		left, err := strconv.ParseInt(string(bytes.TrimRight(line, "\r\n")), 16, 32)
		if err != nil {
			return fmt.Errorf("chunk size: %w", err)
		}
		last := left == 0
		for left > 0 {
			if a.r.Buffered() == 0 {
				if _, err := a.r.Peek(1); err != nil {
					return unexpected(err, false)
				}
			}
			p, _ := a.r.Peek(int(min(left, int64(a.r.Buffered()))))
			n := a.text.count(p)
			a.texts += n
			a.event(n)
			ended += a.end.count(p)
			left -= int64(len(p))
			if _, err := a.r.Discard(len(p)); err != nil {
				return err
			}
		}
		end, err := a.r.ReadSlice('\n')
		if err != nil {
			return unexpected(err, false)
		}
		if string(end) != "\r\n" {
			return fmt.Errorf("chunk ends with %q", end)
		}
		if !last {
			continue
		}
		if ended != 1 {
			return fmt.Errorf("the stream ended after %d text events, without its last event", a.texts)
		}
		if a.job.Events > 0 && a.texts != a.job.Events {
			return fmt.Errorf("got %d text events, want %d", a.texts, a.job.Events)
		}
		return nil
	}
}

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

// marks are what is looked for in the answers of a dialect.
type marks struct {
	text []byte // stands once in each event of text
	end  []byte // stands in the last event
}

var dialects = map[string]marks{
	"openai":    {[]byte(`"content":" `), []byte("data: [DONE]\n\n")},
	"anthropic": {[]byte(`"text":" `), []byte(`{"type":"message_stop"`)},
}

// answer reads the answers of one connection.
type answer struct {
	r     *bufio.Reader
	job   *Job
	event func(n int) // called with how many events of text have come

	text, end search
	texts     int
	body      []byte // of a whole answer
	whole     int    // length of the first whole answer, which was looked at closely
}

func newAnswer(r *bufio.Reader, j *Job) *answer {
	m := dialects[j.Dialect]
	return &answer{r: r, job: j, text: search{mark: m.text}, end: search{mark: m.end}}
}

// search counts a mark in what comes in pieces, cut anywhere.
type search struct {
	mark []byte
	kept []byte // the end of what came, in which a mark may begin
}

func (s *search) reset() { s.kept = s.kept[:0] }

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

// read reads an answer to its end and says what is wrong with it.
func (a *answer) read() error {
	length, err := a.head()
	if err != nil {
		return err
	}
	if a.job.Stream != (length < 0) {
		return errors.New("a whole answer where a stream is due, or the reverse")
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
		return fmt.Errorf("the text is not whole: %.200s", a.body)
	}
	if a.whole == 0 {
		if !json.Valid(a.body) {
			return errors.New("the answer is not JSON")
		}
		a.whole = length
	}
	if length != a.whole {
		return fmt.Errorf("an answer of %d bytes, where the first had %d", length, a.whole)
	}
	return nil
}

// head reads the head of an answer and returns the length of the body, -1 where it comes in chunks.
func (a *answer) head() (length int, err error) {
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
				return 0, errors.New("an answer without a length")
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

// unexpected makes an end that comes too soon an error.
func unexpected(err error, allowed bool) error {
	if err == io.EOF && !allowed {
		return io.ErrUnexpectedEOF
	}
	return err
}

// stream reads a chunked body that is a stream of events.
func (a *answer) stream() error {
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
			return fmt.Errorf("a chunk's size: %w", err)
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
			return fmt.Errorf("a chunk ends with %q", end)
		}
		if !last {
			continue
		}
		if ended != 1 {
			return fmt.Errorf("the stream ended without its last event, behind %d events of text", a.texts)
		}
		if a.job.Events > 0 && a.texts != a.job.Events {
			return fmt.Errorf("%d events of text, where %d are due", a.texts, a.job.Events)
		}
		return nil
	}
}

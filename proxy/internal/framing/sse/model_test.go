package sse_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gateway/sluice/proxy/internal/framing"
)

type modelResult struct {
	events   []event
	tooLarge bool
}

// model is a simple reference implementation: it normalizes line endings, splits the body into lines, and parses the
// fields.
func model(body []byte, max int) (m modelResult) {
	s := strings.TrimPrefix(string(body), "\xEF\xBB\xBF")
	s = strings.ReplaceAll(s, "\r\n", "\n")
	s = strings.ReplaceAll(s, "\r", "\n")
	lines := strings.Split(s, "\n")
	// An unterminated last line counts if it is not empty. Add the empty line that ends its event.
	if lines[len(lines)-1] != "" {
		lines = append(lines, "")
	}
	var name string
	var data []string
	for _, l := range lines {
		if len(l) > max {
			m.tooLarge = true
			return m
		}
		if l == "" {
			if data != nil {
				m.events = append(m.events, event{name, strings.Join(data, "\n")})
			}
			name, data = "", nil
			continue
		}
		field, value, _ := strings.Cut(l, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "data":
			data = append(data, value)
			if len(strings.Join(data, "\n")) > max {
				m.tooLarge = true
				return m
			}
		case "event":
			name = value
		}
	}
	return m
}

func FuzzDecoder(f *testing.F) {
	for _, s := range []string{
		"data: a\n\n", "data: a\r\n\r\ndata: b\r\r", "\xEF\xBB\xBFevent: x\ndata: 1\ndata: 2\n\n", ": c\n\nid: 1\ndata\n\n",
		"data: \xC3\xA4 \\uD83D\\uDE00\n\n", "\r\n\r\r\n\n\n", "data: [DONE]", "event: a\n\nevent\ndata:\n", "\xEF\xBBdata: a\n\n",
		"\xEF\xBB",
	} {
		f.Add([]byte(s), uint8(1), uint8(40))
		f.Add([]byte(s), uint8(3), uint8(7))
		f.Add([]byte(s), uint8(3), uint8(1))
	}
	f.Fuzz(func(t *testing.T, body []byte, size, max uint8) {
		if max < 3 {
			max = 3 // a byte order mark, which may be cut off, is held apart from the line that the limit is for
		}
		if size == 0 {
			size = 1
		}
		var pieces []string
		for rest := string(body); rest != ""; {
			n := min(int(size), len(rest))
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		want := model(body, int(max))
		got, err := read(int(max), pieces...)
		if (err != nil) != want.tooLarge || err != nil && !errors.Is(err, framing.ErrTooLarge) {
			t.Fatalf("got error %v, want one: %t", err, want.tooLarge)
		}
		if d := cmp.Diff(want.events, got); d != "" {
			t.Fatalf("(-want +got):\n%s", d)
		}
	})
}

package sse_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluice-gateway/sluice/proxy/internal/framing"
	"github.com/sluice-gateway/sluice/proxy/internal/framing/sse"
)

type event struct{ Name, Data string }

// read feeds the pieces in order and returns all events, including those that End returns.
func read(max int, pieces ...string) ([]event, error) {
	d := &sse.Decoder{MaxEvent: max}
	var got []event
	for _, p := range pieces {
		buf := []byte(p)
		d.Feed(buf)
		for {
			ev, ok, err := d.Next()
			if err != nil {
				return got, err
			}
			if !ok {
				break
			}
			got = append(got, event{string(ev.Name), string(ev.Data)})
		}
		// The decoder must not refer to the fed bytes once Next has returned ok = false.
		for i := range buf {
			buf[i] = 0xDD
		}
	}
	for {
		ev, ok, err := d.End()
		if err != nil || !ok {
			return got, err
		}
		got = append(got, event{string(ev.Name), string(ev.Data)})
	}
}

func data(s ...string) []event {
	var evs []event
	for _, s := range s {
		evs = append(evs, event{"", s})
	}
	return evs
}

// covers: S8
func TestFraming(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, body string
		want       []event
	}{
		{"empty body", "", nil},
		{"LF", "data: a\n\ndata: b\n\n", data("a", "b")},
		// covers: F43
		{"CRLF", "data: a\r\n\r\ndata: b\r\n\r\n", data("a", "b")},
		{"CR", "data: a\r\rdata: b\r\r", data("a", "b")},
		{"mixed line endings", "data: a\r\n\ndata: b\n\r\ndata: c\r\r\ndata: d\n\rdata: e\r\n\r", data("a", "b", "c", "d", "e")},
		{"byte order mark", "\xEF\xBB\xBFdata: a\n\n", data("a")},
		{"byte order mark only at the start", "data: a\n\n\xEF\xBB\xBFdata: b\n\n", data("a")},
		{"half a byte order mark", "\xEF\xBBdata: a\n\ndata: b\n\n", data("b")},
		{"no space after the colon", "data:a\n\n", data("a")},
		{"one space of two", "data:  a\n\n", data(" a")},
		{"trailing spaces stay", "data: {}   \n\n", data("{}   ")},
		{"tab stays", "data:\ta\n\n", data("\ta")},
		{"several data lines", "data: a\ndata:b\ndata\ndata: c\n\n", data("a\nb\n\nc")}, // covers: F44
		{"empty data", "data\n\ndata:\n\ndata: \n\n", data("", "", "")},
		{"two empty data lines", "data\ndata\n\n", data("\n")},
		// covers: F44
		{"comments", ": OPENROUTER PROCESSING\n\n:\n\ndata: a\n: x\ndata: b\n\n", data("a\nb")},
		{"event, id and retry", "event: x\nid: 1\nretry: 5\ndata: a\n\ndata: b\n\n", []event{{"x", "a"}, {"", "b"}}},
		{"last event name wins", "event: x\nevent: y\ndata: a\nevent\n\nevent: x\nevent: y\ndata: a\n\n", []event{{"", "a"}, {"y", "a"}}},
		{"event without data", "event: ping\n\nid: 7\n\nretry: 1\n\ndata: a\n\n", data("a")}, // covers: F44
		{"colons in the value", "data: a: b\n\nevent: x:y\ndata::\n\n", []event{{"", "a: b"}, {"x:y", ":"}}},
		{"names are exact", "Data: a\n\n data: a\n\ndata : a\n\ndatax: a\n\ndata: b\n\n", data("b")},
		{"empty lines", "\n\n\r\n\r\rdata: a\n\n\n\n", data("a")},
		// covers: F45
		{"HTML", "<html>\n<body style=\"color: red\">\n\n</body>\n\n", nil},
		{"binary", "\x00\x01\x02\xFF\xFE\n\x00\n\n", nil},
		{"NUL in data", "data: \x00\n\n", data("\x00")},
		{"no empty line at the end", "data: a\n\ndata: b\n", data("a", "b")},
		{"unterminated last line", "event: x\ndata: [DONE]", []event{{"x", "[DONE]"}}},
		{"CR at the end", "data: a\r", data("a")},
		{"event name at the end", "data: a\n\nevent: x", data("a")},
		{"comment at the end", "data: a\n\n: x", data("a")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := read(0, tt.body)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("whole (-want +got):\n%s", d)
			}
			got, err = read(0, strings.Split(tt.body, "")...)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("byte by byte (-want +got):\n%s", d)
			}
			for i := range tt.body {
				if got, err = read(0, tt.body[:i], tt.body[i:]); err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(tt.want, got); d != "" {
					t.Errorf("cut at %d (-want +got):\n%s", i, d)
				}
			}
		})
	}
}

func TestEventIsReturnedAtLastByte(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"data: a\n\n", "data: a\r\r", "data: a\r\n\r", "data: a\n\r", "data: a\r\n\n"} {
		d := &sse.Decoder{}
		for i := range len(body) - 1 {
			d.Feed([]byte(body[i : i+1]))
			if _, ok, err := d.Next(); ok || err != nil {
				t.Fatalf("%q: after %d bytes: got an event, or error %v", body, i+1, err)
			}
		}
		d.Feed([]byte(body[len(body)-1:]))
		ev, ok, err := d.Next()
		if !ok || err != nil || string(ev.Data) != "a" {
			t.Errorf("%q: Next = %q, %v, %v", body, ev.Data, ok, err)
		}
		// The LF of a CRLF does not end another line.
		d.Feed([]byte("\n"))
		if _, ok, err := d.Next(); ok || err != nil {
			t.Errorf("%q: after another LF: Next = %v, %v", body, ok, err)
		}
	}
}

// covers: F46
func TestHugeEvent(t *testing.T) {
	t.Parallel()
	const max = 16
	for _, tt := range []struct {
		name, body string
		want       []event
		fails      bool
	}{
		{"line at the limit", "data: 0123456789\n\n", data("0123456789"), false},
		{"line over the limit", "data: 0123456789a\n\n", nil, true},
		{"comment over the limit", "data: a\n\n: 0123456789abcdef\n\ndata: b\n\n", data("a"), true},
		{"unterminated line over the limit", "data: a\n\ndata: 0123456789a", data("a"), true},
		{"joined data at the limit", "data: 0123456\ndata: 01234567\n\n", data("0123456\n01234567"), false},
		{"joined data over the limit", "data: 01234567\ndata: 01234567\n\n", nil, true},
		{"many comments", strings.Repeat(": 0123456789\n", 50) + "data: a\n\n", data("a"), false},
		{"many events", strings.Repeat("data: 01234567\n\n", 3), data("01234567", "01234567", "01234567"), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for i := range len(tt.body) + 1 {
				got, err := read(max, tt.body[:i], tt.body[i:])
				if errors.Is(err, framing.ErrTooLarge) != tt.fails {
					t.Errorf("cut at %d: got error %v", i, err)
				}
				if d := cmp.Diff(tt.want, got); d != "" {
					t.Errorf("cut at %d (-want +got):\n%s", i, d)
				}
			}
		})
	}

	t.Run("memory stays flat", func(t *testing.T) {
		d := &sse.Decoder{}
		piece := []byte(strings.Repeat("x", 64<<10))
		d.Feed([]byte("data: "))
		fed, err := 0, error(nil)
		for err == nil && fed < 64<<20 {
			_, _, err = d.Next()
			d.Feed(piece)
			fed += len(piece)
		}
		if !errors.Is(err, framing.ErrTooLarge) || fed > framing.DefaultMaxEvent+2*len(piece) {
			t.Errorf("after %d bytes: got error %v", fed, err)
		}
		d.Feed(piece)
		if _, _, err := d.Next(); !errors.Is(err, framing.ErrTooLarge) {
			t.Errorf("Next after the error: %v", err)
		}
		if _, _, err := d.End(); !errors.Is(err, framing.ErrTooLarge) {
			t.Errorf("End after the error: %v", err)
		}
		d.Reset()
		d.Feed([]byte("data: a\n\n"))
		if ev, ok, err := d.Next(); !ok || err != nil || string(ev.Data) != "a" {
			t.Errorf("after Reset: %q, %v, %v", ev.Data, ok, err)
		}
	})
}

func TestFeedBeforeEventsAreConsumed(t *testing.T) {
	t.Parallel()
	d := &sse.Decoder{}
	d.Feed([]byte("data: a\n\ndata: b\n\nda"))
	if ev, ok, _ := d.Next(); !ok || string(ev.Data) != "a" {
		t.Fatalf("first: %q, %v", ev.Data, ok)
	}
	d.Feed([]byte("ta: c\n\n"))
	var got []string
	for {
		ev, ok, err := d.Next()
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			break
		}
		got = append(got, string(ev.Data))
	}
	if d := cmp.Diff([]string{"b", "c"}, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestEndReturnsRemainingEvents(t *testing.T) {
	t.Parallel()
	d := &sse.Decoder{}
	d.Feed([]byte("data: a\n\ndata: b\n\ndata: c"))
	var got []string
	for {
		ev, ok, err := d.End()
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			break
		}
		got = append(got, string(ev.Data))
	}
	if d := cmp.Diff([]string{"a", "b", "c"}, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestEventAliasesInput(t *testing.T) {
	t.Parallel()
	p := []byte("event: delta\ndata: hello\n\n")
	d := &sse.Decoder{}
	d.Feed(p)
	ev, ok, err := d.Next()
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	if &ev.Data[0] != &p[19] || &ev.Name[0] != &p[7] {
		t.Error("an event within the bytes of one Feed was copied")
	}
}

// TestAnySplitGivesSameEvents splits recorded bodies at random places.
//
// covers: S9 F42
func TestAnySplitGivesSameEvents(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.sse")
	if err != nil || len(files) < 5 {
		t.Fatalf("recorded bodies: %v, %v", files, err)
	}
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			t.Parallel()
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			want := model(b, framing.DefaultMaxEvent).events
			if len(want) < 3 {
				t.Fatalf("%d events", len(want))
			}
			got, err := read(0, string(b))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Fatalf("whole (-want +got):\n%s", d)
			}
			rapid.Check(t, func(t *rapid.T) {
				got, err := read(0, splitRandomly(t, string(b))...)
				if err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(want, got); d != "" {
					t.Fatalf("(-want +got):\n%s", d)
				}
			})
		})
	}
}

// TestRandomBodies compares the events of random bodies, split at random places, with the model.
//
// covers: S9
func TestRandomBodies(t *testing.T) {
	t.Parallel()
	lines := []string{"", "", "data: a", "data:", "data", "data: bcdefgh", "event: x", "event", ":", ": c", "id: 1", "x", "\xEF\xBB\xBF"}
	ends := []string{"\n", "\r", "\r\n", "\n\n", "\r\r", "\r\n\r\n"}
	rapid.Check(t, func(t *rapid.T) {
		var b strings.Builder
		for range rapid.IntRange(0, 20).Draw(t, "lines") {
			b.WriteString(rapid.SampledFrom(lines).Draw(t, "line"))
			b.WriteString(rapid.SampledFrom(ends).Draw(t, "end"))
		}
		b.WriteString(rapid.SampledFrom(lines).Draw(t, "rest"))
		max := rapid.IntRange(1, 20).Draw(t, "max")
		want := model([]byte(b.String()), max)
		got, err := read(max, splitRandomly(t, b.String())...)
		if (err != nil) != want.tooLarge {
			t.Fatalf("%q: got error %v, want one: %t", b.String(), err, want.tooLarge)
		}
		if d := cmp.Diff(want.events, got); d != "" {
			t.Fatalf("%q (-want +got):\n%s", b.String(), d)
		}
	})
}

func splitRandomly(t *rapid.T, s string) []string {
	var pieces []string
	for len(s) > 0 {
		n := rapid.IntRange(1, min(len(s), rapid.SampledFrom([]int{1, 3, 40, 4096}).Draw(t, "scale"))).Draw(t, "piece")
		pieces, s = append(pieces, s[:n]), s[n:]
	}
	return pieces
}

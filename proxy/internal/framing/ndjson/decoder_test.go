package ndjson_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluice-gateway/sluice/proxy/internal/framing"
	"github.com/sluice-gateway/sluice/proxy/internal/framing/ndjson"
)

// read feeds the pieces in order and returns all events, including the one that End returns.
func read(max int, pieces ...string) ([]string, error) {
	d := &ndjson.Decoder{MaxEvent: max}
	var got []string
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
			got = append(got, string(ev.Name)+string(ev.Data))
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
		got = append(got, string(ev.Name)+string(ev.Data))
	}
}

// covers: S8
func TestLines(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, body string
		want       []string
	}{
		{"empty body", "", nil},
		{"LF", "{}\n[1]\n", []string{"{}", "[1]"}},
		{"CRLF", "{}\r\n[1]\r\n", []string{"{}", "[1]"}},
		{"LF and CRLF", "1\n2\r\n3\n", []string{"1", "2", "3"}},
		{"CR inside a line", "{\r}\n", []string{"{\r}"}},
		{"one CR of two", "1\r\r\n", []string{"1\r"}},
		{"lone CR does not end a line", "1\r2\r", []string{"1\r2"}},
		{"blank lines", "\n\r\n \t\n1\n\n \r\n\r\r\n2\n\n", []string{"1", "2"}},
		{"white space around JSON is kept", " {} \n\t1\t\r\n", []string{" {} ", "\t1\t"}},
		{"unterminated", "1\n{\"done\":true}", []string{"1", `{"done":true}`}},
		{"unterminated with half a CRLF", "1\n2\r", []string{"1", "2"}},
		{"unterminated and blank", "1\n  ", []string{"1"}},
		{"only a CR", "\r", nil},
		{"binary", "\x00\xFF\n\x00", []string{"\x00\xFF", "\x00"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			check := func(how string, pieces ...string) {
				t.Helper()
				got, err := read(0, pieces...)
				if err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(tt.want, got); d != "" {
					t.Errorf("%s (-want +got):\n%s", how, d)
				}
			}
			check("whole", tt.body)
			check("byte by byte", strings.Split(tt.body, "")...)
			for i := range tt.body {
				check("cut in two", tt.body[:i], tt.body[i:])
			}
		})
	}
}

func TestEventIsReturnedAtLineFeed(t *testing.T) {
	t.Parallel()
	d := &ndjson.Decoder{}
	const line = `{"a":1}`
	for i := range line {
		d.Feed([]byte(line[i : i+1]))
		if _, ok, err := d.Next(); ok || err != nil {
			t.Fatalf("after %d bytes: Next = %v, %v", i+1, ok, err)
		}
	}
	d.Feed([]byte("\n"))
	if ev, ok, err := d.Next(); !ok || err != nil || string(ev.Data) != line {
		t.Errorf("Next = %q, %v, %v", ev.Data, ok, err)
	}
}

func TestEventAliasesInput(t *testing.T) {
	t.Parallel()
	p := []byte("\n{\"a\":1}\r\n")
	d := &ndjson.Decoder{}
	d.Feed(p)
	ev, ok, err := d.Next()
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	if &ev.Data[0] != &p[1] {
		t.Error("a line within the bytes of one Feed was copied")
	}
}

func TestFeedBeforeEventsAreConsumed(t *testing.T) {
	t.Parallel()
	d := &ndjson.Decoder{}
	d.Feed([]byte("1\n2\n3"))
	if ev, ok, _ := d.Next(); !ok || string(ev.Data) != "1" {
		t.Fatalf("first: %q, %v", ev.Data, ok)
	}
	d.Feed([]byte("4\n5"))
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
	if d := cmp.Diff([]string{"2", "34", "5"}, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// covers: F46
func TestHugeLine(t *testing.T) {
	t.Parallel()
	const max = 8
	for _, tt := range []struct {
		name, body string
		want       []string
		fails      bool
	}{
		{"at the limit", "12345678\n", []string{"12345678"}, false},
		{"over the limit", "123456789\n", nil, true},
		{"over the limit by its CR", "12345678\r\n", nil, true},
		{"over the limit and unterminated", "1\n123456789", []string{"1"}, true},
		{"blank and over the limit", "1\n         \n2\n", []string{"1"}, true},
		{"many lines", strings.Repeat("1234567\n", 3), []string{"1234567", "1234567", "1234567"}, false},
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
		t.Parallel()
		d := &ndjson.Decoder{}
		piece := []byte(strings.Repeat("x", 64<<10))
		fed, err := 0, error(nil)
		for err == nil && fed < 64<<20 {
			d.Feed(piece)
			fed += len(piece)
			_, _, err = d.Next()
		}
		if !errors.Is(err, framing.ErrTooLarge) || fed > framing.DefaultMaxEvent+len(piece) {
			t.Errorf("after %d bytes: got error %v", fed, err)
		}
		d.Feed([]byte("1\n"))
		if _, _, err := d.Next(); !errors.Is(err, framing.ErrTooLarge) {
			t.Errorf("Next after the error: %v", err)
		}
		if _, _, err := d.End(); !errors.Is(err, framing.ErrTooLarge) {
			t.Errorf("End after the error: %v", err)
		}
		d.Reset()
		d.Feed([]byte("1\n"))
		if ev, ok, err := d.Next(); !ok || err != nil || string(ev.Data) != "1" {
			t.Errorf("after Reset: %q, %v, %v", ev.Data, ok, err)
		}
	})
}

func TestResetDropsPartialLine(t *testing.T) {
	t.Parallel()
	d := &ndjson.Decoder{MaxEvent: 4}
	d.Feed([]byte("12"))
	if _, ok, err := d.Next(); ok || err != nil {
		t.Fatal(ok, err)
	}
	d.Reset()
	d.Feed([]byte("3456\n78901"))
	if ev, ok, err := d.Next(); !ok || err != nil || string(ev.Data) != "3456" {
		t.Errorf("Next = %q, %v, %v", ev.Data, ok, err)
	}
	if _, _, err := d.Next(); !errors.Is(err, framing.ErrTooLarge) {
		t.Errorf("got %v, want ErrTooLarge: Reset must keep the limit", err)
	}
}

// TestAnySplitGivesSameEvents splits a recorded body at random places.
//
// covers: S9
func TestAnySplitGivesSameEvents(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("testdata/ollama-plain.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	want, _ := model(string(b), framing.DefaultMaxEvent)
	if len(want) < 3 {
		t.Fatalf("%d lines", len(want))
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
}

// TestRandomBodies compares the events of random bodies, split at random places, with the model.
//
// covers: S9
func TestRandomBodies(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		body := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"{}", "1", "abcdefg", " ", "\t", "\r", "\n", "\r\n"}), 0, 40).Draw(t, "parts"), "")
		max := rapid.IntRange(1, 20).Draw(t, "max")
		want, tooLarge := model(body, max)
		got, err := read(max, splitRandomly(t, body)...)
		if (err != nil) != tooLarge {
			t.Fatalf("%q: got error %v, want one: %t", body, err, tooLarge)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("%q (-want +got):\n%s", body, d)
		}
	})
}

func FuzzDecoder(f *testing.F) {
	for _, s := range []string{"{}\n{}\n", "1\r\n\r\n2", "\n\n \n", "a\r\r\nb\r", "{\"a\":\"\xC3\xA4\"}\n", "123456789\n1\n"} {
		f.Add([]byte(s), uint8(1), uint8(40))
		f.Add([]byte(s), uint8(3), uint8(7))
	}
	f.Fuzz(func(t *testing.T, body []byte, size, limit uint8) {
		max, step := int(limit)+1, int(size)+1
		var pieces []string
		for rest := string(body); rest != ""; {
			n := min(step, len(rest))
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		want, tooLarge := model(string(body), max)
		got, err := read(max, pieces...)
		if errors.Is(err, framing.ErrTooLarge) != tooLarge || !tooLarge && err != nil {
			t.Fatalf("got error %v, want one: %t", err, tooLarge)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("(-want +got):\n%s", d)
		}
	})
}

// model is a simple reference implementation.
func model(body string, max int) (events []string, tooLarge bool) {
	for _, l := range strings.Split(body, "\n") {
		if len(l) > max {
			return events, true
		}
		if strings.Trim(l, " \t\r") != "" {
			events = append(events, strings.TrimSuffix(l, "\r"))
		}
	}
	return events, false
}

func splitRandomly(t *rapid.T, s string) []string {
	var pieces []string
	for len(s) > 0 {
		n := rapid.IntRange(1, min(len(s), rapid.SampledFrom([]int{1, 3, 40, 4096}).Draw(t, "scale"))).Draw(t, "piece")
		pieces, s = append(pieces, s[:n]), s[n:]
	}
	return pieces
}

// BenchmarkRead reads a recorded stream as a whole, in pieces of the size of a small connection buffer, and in tiny
// pieces.
func BenchmarkRead(b *testing.B) {
	body, err := os.ReadFile("testdata/ollama-plain.ndjson")
	if err != nil {
		b.Fatal(err)
	}
	for _, bb := range []struct {
		name string
		size int
	}{{"whole", len(body)}, {"1KiB", 1 << 10}, {"16B", 16}} {
		b.Run(bb.name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			var d ndjson.Decoder
			events := 0
			for b.Loop() {
				for p := body; len(p) > 0; {
					k := min(bb.size, len(p))
					d.Feed(p[:k])
					p = p[k:]
					for {
						_, ok, err := d.Next()
						if err != nil {
							b.Fatal(err)
						}
						if !ok {
							break
						}
						events++
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(events), "ns/event")
		})
	}
}

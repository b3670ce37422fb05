package response_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// joined returns the content as a client assembles it from the frames.
func (r *run) joined(t testing.TB) string {
	t.Helper()
	var all strings.Builder
	for _, f := range r.frames() {
		if f == done {
			continue
		}
		var chunk struct {
			Choices []struct{ Delta struct{ Content string } }
		}
		if err := json.Unmarshal([]byte(f), &chunk); err != nil {
			t.Fatalf("%v in %s", err, f)
		}
		for _, c := range chunk.Choices {
			all.WriteString(c.Delta.Content)
		}
	}
	return all.String()
}

func TestTextEncodings(t *testing.T) {
	cases := []struct {
		name   string
		enc    abi.Encoding
		pieces []string
		want   string
	}{
		{"plain", abi.EncodingUTF8, []string{"a\"b\\c\n\t\x00\x1f\x7f/<é€😀"}, "a\"b\\c\n\t\x00\x1f\x7f/<é€😀"},
		{"plain, split in UTF-8", abi.EncodingUTF8, []string{"a\xf0", "\x9f\x98", "\x80b"}, "a😀b"},
		{"plain, invalid", abi.EncodingUTF8, []string{"a\xffb\xe2\x82", "c"}, "a\uFFFDb\uFFFD\uFFFDc"},
		{"plain, truncated in UTF-8", abi.EncodingUTF8, []string{"a\xe2\x82"}, "a\uFFFD\uFFFD"},
		{"plain, only part of a character", abi.EncodingUTF8, []string{"\xe2"}, "\uFFFD"},
		{"escaped", abi.EncodingEscaped, []string{`a\"b\\c\n\/\u00e9\ud83d\ude00é`}, "a\"b\\c\n/é😀é"},
		{"escaped, split after the backslash", abi.EncodingEscaped, []string{`a\`, `nb`}, "a\nb"},
		{"escaped, split in the digits", abi.EncodingEscaped, []string{`\u0`, `0e`, `9x`}, "éx"},
		{"escaped, split in a surrogate pair", abi.EncodingEscaped, []string{`\ud83d`, `\ude00`}, "😀"},
		{"escaped, split in the low surrogate", abi.EncodingEscaped, []string{`\ud83d\u`, `de0`, `0!`}, "😀!"},
		{"escaped, high surrogate alone", abi.EncodingEscaped, []string{`a\ud83d`, `b`}, "a\uFFFDb"},
		{"escaped, high surrogate before an escape", abi.EncodingEscaped, []string{`\ud83d\n`}, "\uFFFD\n"},
		{"escaped, high surrogate before another", abi.EncodingEscaped, []string{`\ud83d\ud83d`, `\ude00`}, "\uFFFD😀"},
		{"escaped, high surrogate before another character", abi.EncodingEscaped, []string{`\ud83d\u0041`}, "\uFFFDA"},
		{"escaped, low surrogate alone", abi.EncodingEscaped, []string{`\ude00a`}, "\uFFFDa"},
		{"escaped, high surrogate at the end", abi.EncodingEscaped, []string{`a\ud83d`}, "a\uFFFD"},
		{"escaped, invalid UTF-8", abi.EncodingEscaped, []string{"a\xff\\n"}, "a\uFFFD\n"},
		{"escaped, split in UTF-8", abi.EncodingEscaped, []string{"\xe2\x82", "\xac"}, "€"},
		{"JSON", abi.EncodingJSON, []string{`{ "b" : 1.50, "a" : [ 12345678901234567890, "x y" ] }`}, `{"b":1.50,"a":[12345678901234567890,"x y"]}`},
		{"JSON, escapes are kept", abi.EncodingJSON, []string{`"\u00e9\n"`}, `"\u00e9\n"`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			both(t, func(t *testing.T, r *run) {
				for _, p := range c.pieces {
					r.apply(func(b *response.Batch) { b.Text(0, c.enc, []byte(p)) })
				}
				r.apply(stop)
				if len(r.w.Output()) > 0 {
					if got := r.joined(t); got != c.want {
						t.Errorf("streaming: %q, want %q", got, c.want)
					}
					return
				}
				var m struct{ Content string }
				if err := json.Unmarshal([]byte(r.message()), &m); err != nil || m.Content != c.want {
					t.Errorf("content %q, error %v, want %q", m.Content, err, c.want)
				}
			})
		})
	}
}

func TestPartialCharactersAreCompletedByTheirText(t *testing.T) {
	cases := []struct {
		name string
		fill func(b *response.Batch)
		want string
	}{
		{"UTF-8, then escaped", func(b *response.Batch) {
			b.Text(0, abi.EncodingUTF8, []byte("\xe2\x82"))
			b.Text(0, abi.EncodingEscaped, []byte("\xac\\n"))
		}, "€\n"},
		{"escaped, then UTF-8", func(b *response.Batch) {
			b.Text(0, abi.EncodingEscaped, []byte("\xe2"))
			b.Text(0, abi.EncodingUTF8, []byte("\x82\xac\n"))
		}, "€\n"},
		{"an escape is not completed by UTF-8", func(b *response.Batch) {
			b.Text(0, abi.EncodingEscaped, []byte(`a\ud83d`))
			b.Text(0, abi.EncodingUTF8, []byte(`\ude00`))
		}, "a\uFFFD\\ude00"},
		{"a character is not completed by a JSON value", func(b *response.Batch) {
			b.Text(0, abi.EncodingUTF8, []byte("a\xe2"))
			b.Text(0, abi.EncodingJSON, []byte(`1`))
		}, "a\uFFFD1"},
		{"other texts between the parts", func(b *response.Batch) {
			b.Text(0, abi.EncodingUTF8, []byte("\xe2\x82"))
			b.Refusal(0, abi.EncodingUTF8, []byte("\xc3"))
			b.Reasoning(0, abi.ReasoningText, 0, abi.EncodingUTF8, []byte("\xc3"))
			b.ToolCall(0, 0, nil, []byte("f"))
			b.ToolArguments(0, 0, abi.EncodingUTF8, []byte("\xc3"))
			b.Text(1, abi.EncodingUTF8, []byte("\xc3"))
			b.Text(0, abi.EncodingUTF8, []byte("\xac"))
		}, "€"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := newRun(t, response.Options{})
			r.apply(c.fill)
			r.apply(stop)
			var m struct{ Content string }
			if err := json.Unmarshal([]byte(r.message()), &m); err != nil || m.Content != c.want {
				t.Errorf("content %q, want %q", m.Content, c.want)
			}
		})
	}
}

// TestAnySplitGivesSameText splits texts at every position and at every pair of positions.
//
// covers: S9
func TestAnySplitGivesSameText(t *testing.T) {
	texts := []struct {
		enc abi.Encoding
		s   string
	}{
		{abi.EncodingUTF8, "aé€😀\"\\\n\xff\x82\xe2\x28z"},
		{abi.EncodingEscaped, `x\"\\\n\u00E9\ud83d\ude00\ud83dy\uDE00é€😀`},
		{abi.EncodingEscaped, "\\ud83d\\ud83d\\ude00\xf0\x9f\x98\\\\u0041\xe2\x82!"},
	}
	for i, c := range texts {
		write := func(pieces ...string) string {
			r := newRun(t, response.Options{})
			for _, p := range pieces {
				r.apply(func(b *response.Batch) { b.Text(0, c.enc, []byte(p)) })
			}
			n := r.w.TextLength(0)
			r.apply(stop)
			var m struct{ Content string }
			if err := json.Unmarshal([]byte(r.message()), &m); err != nil {
				t.Fatal(err)
			}
			if got := int64(utf8.RuneCountInString(m.Content)); got != n {
				t.Errorf("text %d in %q: %d code points, counted %d", i, pieces, got, n)
			}
			return m.Content
		}
		want := write(c.s)
		for from := range len(c.s) {
			for to := from; to <= len(c.s); to++ {
				if got := write(c.s[:from], c.s[from:to], c.s[to:]); got != want {
					t.Errorf("text %d split at %d and %d: %q, want %q", i, from, to, got, want)
				}
			}
		}
	}
}

func TestDefaultTexts(t *testing.T) {
	const def = abi.EncodingDefault
	both(t, func(t *testing.T, r *run) {
		r.apply(func(b *response.Batch) {
			b.Text(0, abi.EncodingUTF8|def, []byte("unused"))
			b.Text(0, abi.EncodingUTF8, []byte("used"))
			b.Text(1, abi.EncodingEscaped|def, []byte(`de\n`))
			b.Text(1, abi.EncodingUTF8|def, []byte("fault\xe2"))
			b.Reasoning(1, abi.ReasoningText, 4, abi.EncodingUTF8|def, []byte("why"))
			b.Refusal(1, abi.EncodingJSON|def, []byte(`{ }`))
			b.Done(abi.DoneNow)
		})
		if len(r.w.Output()) > 0 {
			c1 := func(s string) string { return `[{"index":1,"delta":{` + s + `},"finish_reason":null}]` }
			r.want(role, content("used"), finish("stop"),
				c1(`"role":"assistant","content":""`),
				c1(`"reasoning_content":"why","reasoning_details":[{"type":"reasoning.text","text":"why","index":4}]`),
				c1(`"content":"de\nfault`+"\uFFFD"+`"`),
				c1(`"refusal":"{}"`),
				`[{"index":1,"delta":{},"finish_reason":"stop"}]`, done)
			return
		}
		a := r.response()
		for _, want := range []string{
			`{"index":0,"message":{"role":"assistant","content":"used","refusal":null}`,
			`{"index":1,"message":{"role":"assistant","content":"de\nfault` + "\uFFFD" + `","refusal":"{}","reasoning_content":"why",`,
		} {
			if !strings.Contains(a, want) {
				t.Errorf("no %s in %s", want, a)
			}
		}
	})
}

func TestContentIsNullOrEmpty(t *testing.T) {
	cases := []struct {
		name string
		fill func(b *response.Batch)
		want string
	}{
		{"only tool calls", func(b *response.Batch) { // covers: S18
			b.Text(0, abi.EncodingUTF8, nil)
			b.ToolCall(0, 0, []byte("c"), []byte("f"))
			b.Finish(0, abi.FinishToolCalls, nil)
		}, `{"role":"assistant","content":null,"refusal":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}`},
		{"no content", func(b *response.Batch) { b.Finish(0, abi.FinishStop, nil) }, // covers: R20
			`{"role":"assistant","content":"","refusal":null}`},
		{"thinking used the budget", func(b *response.Batch) { // covers: T20
			b.Reasoning(0, abi.ReasoningText, 0, 0, []byte("hm"))
			b.Finish(0, abi.FinishLength, nil)
		}, `{"role":"assistant","content":"","refusal":null,"reasoning_content":"hm","reasoning_details":[{"type":"reasoning.text","text":"hm","index":0}]}`},
		{"a refusal", func(b *response.Batch) {
			b.Refusal(0, 0, []byte("no"))
			b.Finish(0, abi.FinishStop, nil)
		}, `{"role":"assistant","content":null,"refusal":"no"}`},
		{"audio", func(b *response.Batch) {
			b.Extra(abi.ScopeMessage, 0, 0, []byte("audio"), []byte(`{"id":"a"}`))
			b.Finish(0, abi.FinishStop, nil)
		}, `{"role":"assistant","content":null,"refusal":null,"audio":{"id":"a"}}`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := newRun(t, response.Options{})
			r.apply(func(b *response.Batch) { c.fill(b); b.Done(abi.DoneNow) })
			if got := r.message(); got != c.want {
				t.Errorf(" got %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestTextLength(t *testing.T) {
	both(t, func(t *testing.T, r *run) {
		steps := []struct {
			enc  abi.Encoding
			s    string
			want int64
		}{
			{abi.EncodingUTF8, "aé😀", 3},
			{abi.EncodingEscaped, `\ud83d\ude00\n\u00e9é`, 7},
			{abi.EncodingUTF8, "\xe2\x82", 7},
			{abi.EncodingUTF8, "\xac", 8},
			{abi.EncodingJSON, `{ "a": 1 }`, 15},
			{abi.EncodingUTF8 | abi.EncodingDefault, "xxx", 15},
		}
		for _, s := range steps {
			r.apply(func(b *response.Batch) {
				b.Text(0, s.enc, []byte(s.s))
				b.Reasoning(0, abi.ReasoningText, 0, 0, []byte("not counted"))
			})
			if got := r.w.TextLength(0); got != s.want {
				t.Errorf("after %q: length %d, want %d", s.s, got, s.want)
			}
		}
		for _, c := range []int32{-1, 1, 500} {
			if got := r.w.TextLength(c); got != 0 {
				t.Errorf("choice %d: length %d, want 0", c, got)
			}
		}
	})
}

func TestEveryByteInEveryEncoding(t *testing.T) {
	for enc := range abi.Encoding(3) {
		for c := range 256 {
			for _, s := range [][]byte{{byte(c)}, {'"', byte(c), '"'}, {'\\', byte(c)}, {byte(c), '\\', 'u', byte(c)}} {
				r := newRun(t, response.Options{Stream: true})
				r.b.Text(0, enc, s)
				if r.w.Apply(&r.b) != nil {
					continue
				}
				r.b.Reset()
				stop(&r.b)
				if err := r.w.Apply(&r.b); err != nil {
					t.Fatal(err)
				}
				r.frames() // checks the form
				if t.Failed() {
					t.Fatalf("encoding %d, bytes %q", enc, s)
				}
			}
		}
	}
}

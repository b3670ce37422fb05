package excerpt_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sluice-gateway/sluice/proxy/internal/excerpt"
)

func TestExcerpt(t *testing.T) {
	const prompt = "Write a poem about the harbour at night, and mention my daughter Ada."
	long := strings.Repeat("filler without meaning ", 500)
	for _, c := range []struct {
		name, message string
		texts         []string
		want          string
	}{
		{"plain", "Unsupported parameter: 'max_tokens'.", []string{prompt}, "Unsupported parameter: 'max_tokens'."},
		{"one line", " a\r\n\tb\x00c\xffd\u202e ", nil, "a b c?d?"},
		{"a whole text", "cannot say: canary-7391!", []string{"canary-7391"}, "cannot say: …!"},
		{"a whole text with spaces", "cannot say: canary-7391!", []string{" canary-7391\n"}, "cannot say: …!"},
		{"a whole text twice", "canary-7391 canary-7391", []string{"canary-7391"}, "… …"},
		{"a short text", "say hi", []string{"hi"}, "say hi"},
		{"a part of a text", "flagged: 'the harbour at night, and mention my daughter' is bad", []string{long, long + prompt + long}, "flagged: '…' is bad"},
		{"words that a long text has too", "This is without meaning, and not allowed.", []string{long}, "This is without meaning, and not allowed."},
		{"parts of two texts", "a " + prompt[:30] + " b " + long[:30] + "c", []string{prompt, long}, "a …b…c"},
		{"a masked key", "Incorrect API key provided: sk-abc****wxyz. See https://x.example", nil, "Incorrect API key provided: [redacted] See https://x.example"},
		{"nothing", "", []string{prompt}, ""},
		{"all of it", prompt, []string{prompt}, "…"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := excerpt.New([]byte(c.message))
			for _, text := range c.texts {
				e.Cut([]byte(text))
			}
			if got := e.String(); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestExcerptIsBounded(t *testing.T) {
	for _, message := range []string{strings.Repeat("é", 1000), "x" + strings.Repeat("€", 1000), strings.Repeat("\xff", 5000)} {
		if got := excerpt.New([]byte(message)).String(); len(got) > 512 || len(got) < 500 || !utf8.ValidString(got) {
			t.Errorf("got %d bytes of %q…, want at most 512 and valid UTF-8", len(got), message[:10])
		}
	}
}

// FuzzExcerpt checks that the excerpt contains no run of 24 bytes of the text.
func FuzzExcerpt(f *testing.F) {
	f.Add("say: the quick brown fox jumps over the lazy dog", "the quick brown fox jumps over the lazy dog again")
	f.Fuzz(func(t *testing.T, message, text string) {
		e := excerpt.New([]byte(message))
		e.Cut([]byte(text))
		got := e.String()
		if !utf8.ValidString(got) || strings.ContainsAny(got, "\r\n\x00") {
			t.Errorf("got %q, want one line of valid UTF-8", got)
		}
		if got != message {
			return // replacing characters may have created a run that the message did not have
		}
		for i := 0; i+24 <= len(text); i++ {
			if strings.Contains(got, text[i:i+24]) {
				t.Errorf("the excerpt contains %q of %q", text[i:i+24], text)
			}
		}
	})
}

func BenchmarkCut(b *testing.B) {
	message := []byte(strings.Repeat("some words of a provider ", 20))
	text := []byte(strings.Repeat("the text of a conversation, ", 40_000))
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		excerpt.New(message).Cut(text)
	}
}

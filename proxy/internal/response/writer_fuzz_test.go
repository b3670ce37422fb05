package response_test

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/sluice-gateway/sluice/proxy/internal/openai"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// FuzzWriterText gives any bytes as a text, in one piece and in two, and checks that both are accepted or both rejected, that
// the content is the same, and that what a JSON library reads is as many code points as the writer has counted.
func FuzzWriterText(f *testing.F) {
	for _, s := range []string{"plain", `a\"b\\\n\u00e9\ud83d\ude00`, "é€😀\xff\xe2\x82", `\ud83d\ud83d\udeZ0`, `{"a": [1.50, "\u00e9"]}`, "\x00\n\""} {
		for enc := range byte(3) {
			f.Add([]byte(s), enc, uint16(len(s)/2))
		}
	}
	f.Fuzz(func(t *testing.T, s []byte, enc byte, cut uint16) {
		e := abi.Encoding(enc % 3)
		at := int(cut) % (len(s) + 1)
		play := func(pieces ...[]byte) (content string, points int64, err error) {
			w := openai.NewWriter()
			var b response.Batch
			w.Reset(options())
			for _, p := range pieces {
				b.Reset()
				b.Text(0, e, p)
				if err := w.Apply(&b); err != nil {
					return "", 0, err
				}
			}
			waits := w.TextLength(0)
			b.Reset()
			b.Done(abi.DoneNow)
			if err := w.Apply(&b); err != nil {
				t.Fatal(err)
			}
			var a struct {
				Choices []struct{ Message struct{ Content string } }
			}
			if err := json.Unmarshal(w.AppendResponse(nil), &a); err != nil {
				t.Fatalf("%v in %q", err, w.AppendResponse(nil))
			}
			return a.Choices[0].Message.Content, waits, nil
		}
		content, points, err := play(s)
		if e == abi.EncodingJSON {
			return // a value cannot be cut
		}
		again, _, errCut := play(s[:at], s[at:])
		if (err == nil) != (errCut == nil) {
			t.Fatalf("whole: %v, cut at %d: %v", err, at, errCut)
		}
		if content != again {
			t.Fatalf("whole %q, cut at %d %q", content, at, again)
		}
		if n := int64(utf8.RuneCountInString(content)); err == nil && (points > n || n > points+4) {
			t.Fatalf("%d code points, counted %d", n, points) // a partial character at the end is not counted before the end
		}
	})
}

func options() response.Options {
	return response.Options{ID: "own", Model: "asked", Created: 1700000000}
}

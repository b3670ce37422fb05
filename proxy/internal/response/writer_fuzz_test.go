package response_test

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/sluice-gateway/sluice/proxy/internal/openai"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// FuzzWriterText writes arbitrary bytes as a text, in one piece and in two. Either both are accepted or both are
// rejected, the content must be the same, and the writer must count as many code points as a JSON library reads.
func FuzzWriterText(f *testing.F) {
	for _, s := range []string{"plain", `a\"b\\\n\u00e9\ud83d\ude00`, "é€😀\xff\xe2\x82", `\ud83d\ud83d\udeZ0`, `{"a": [1.50, "\u00e9"]}`, "\x00\n\""} {
		for enc := range byte(3) {
			f.Add([]byte(s), enc, uint16(len(s)/2))
		}
	}
	f.Fuzz(func(t *testing.T, s []byte, enc byte, cut uint16) {
		e := abi.Encoding(enc % 3)
		at := int(cut) % (len(s) + 1)
		write := func(pieces ...[]byte) (content string, points int64, err error) {
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
			points = w.TextLength(0)
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
			return a.Choices[0].Message.Content, points, nil
		}
		content, points, err := write(s)
		if e == abi.EncodingJSON {
			return // a JSON value cannot be split
		}
		joined, _, errSplit := write(s[:at], s[at:])
		if (err == nil) != (errSplit == nil) {
			t.Fatalf("error %v in one piece, split at %d: %v", err, at, errSplit)
		}
		if content != joined {
			t.Fatalf("content %q in one piece, split at %d: %q", content, at, joined)
		}
		if n := int64(utf8.RuneCountInString(content)); err == nil && (points > n || n > points+4) {
			t.Fatalf("%d code points, counted %d", n, points) // up to 4 more, because a partial character is counted only at the end
		}
	})
}

func options() response.Options {
	return response.Options{ID: "own", Model: "asked", Created: 1700000000}
}

package json_test

import (
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/sdk/json"
)

const event = `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello, how are you"}     }`

// conversation is a body of about n bytes.
func conversation(n int) []byte {
	const turn = `{"role":"user","content":"The quick brown fox jumps over the lazy dog, and then it \"rests\" for a while under the tree.\n"},`
	return []byte(`{"model":"m","messages":[` + strings.TrimSuffix(strings.Repeat(turn, n/len(turn)+1), ",") + `]}`)
}

func readEvent(r *json.Reader, data []byte) (text []byte, index int64) {
	r.Reset(data)
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "index":
			index, _ = r.Int()
		case "delta":
			for o := r.Object(); o.Next(); {
				if string(r.Name()) == "text" {
					text = r.Inside()
				}
			}
		}
	}
	return text, index
}

func BenchmarkReadEvent(b *testing.B) {
	data := []byte(event)
	var r json.Reader
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if text, _ := readEvent(&r, data); len(text) == 0 {
			b.Fatal("no text")
		}
	}
}

func BenchmarkReadBody(b *testing.B) {
	for _, size := range []struct {
		name string
		n    int
	}{{"1KB", 1 << 10}, {"100KB", 100 << 10}, {"1MB", 1 << 20}} {
		b.Run(size.name, func(b *testing.B) {
			data := conversation(size.n)
			var r json.Reader
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				r.Reset(data)
				if err := r.End(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkWriteText(b *testing.B) {
	text := []byte(strings.Repeat("The quick brown fox jumps over the lazy dog\n", 20))
	var w json.Writer
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		w.Reset()
		w.Text(text)
	}
}

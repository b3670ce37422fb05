//go:build !race

package messages_test

import (
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/messages"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
)

func TestEventsDoNotAllocate(t *testing.T) {
	for name, event := range benchEvents {
		var b response.Batch
		w := newMessageWriter()
		w.reset(true, false)
		for _, f := range append(benchSetup[name], event) {
			b.Reset()
			f(&b)
			if err := w.Apply(&b); err != nil {
				t.Fatal(err)
			}
		}
		if n := testing.AllocsPerRun(200, func() {
			if err := w.Apply(&b); err != nil {
				t.Fatal(err)
			}
			w.Consume()
		}); n != 0 {
			t.Errorf("%s: %v allocations per event", name, n)
		}
	}
}

func TestNativeEventsDoNotAllocate(t *testing.T) {
	for _, pass := range []bool{true, false} {
		for _, data := range []string{deltaEvent, pingEvent, `{"index":0,"delta":{"text":" token","type":"text_delta"},"type":"content_block_delta"}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"citations_delta","citation":{"type":"char_location"}}}`} {
			var r messages.Reader
			var b response.Batch
			w := newMessageWriter()
			w.reset(true, pass)
			r.Reset(pass)
			event := []byte(data)
			read := func() {
				b.Reset()
				if err := r.ReadEvent(nil, event, &b); err != nil {
					t.Fatal(err)
				}
				if err := w.Apply(&b); err != nil {
					t.Fatal(err)
				}
				w.Consume()
			}
			if err := r.ReadEvent(nil, []byte(blockEvent), &b); err != nil {
				t.Fatal(err)
			}
			read()
			if n := testing.AllocsPerRun(200, read); n != 0 {
				t.Errorf("passed %t: %s: %v allocations", pass, data, n)
			}
		}
	}
}

// TestResponsesReuseMemory renders responses with the same writer.
func TestResponsesReuseMemory(t *testing.T) {
	var b response.Batch
	w := newMessageWriter()
	inOneBatch(start("msg_1", "m", "deepseek"), reasoning(0, 0, "hm"), text("a"), call(0, "a", "f"), args(0, `{"a":1}`), call(1, "b", "g"), endCall(1), finish(0, ""), done)(&b)
	var dst []byte
	for _, stream := range []bool{true, false} {
		render := func() {
			w.reset(stream, false)
			if err := w.Apply(&b); err != nil {
				t.Fatal(err)
			}
			if !stream {
				dst = w.AppendResponse(dst[:0])
			}
		}
		render()
		// The one allocation is the format of the sealed reasoning, a string.
		if n := testing.AllocsPerRun(100, render); n > 1 {
			t.Errorf("stream %t: %v allocations", stream, n)
		}
	}
}

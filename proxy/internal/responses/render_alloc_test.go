//go:build !race

package responses_test

import (
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/openai"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// pieces are the events that streams repeat.
var pieces = map[string]step{
	"text":      text("a token"),
	"reasoning": reasoning(abi.ReasoningText, 0, "a token"),
	"arguments": args(0, `{"a":`),
	"custom":    args(1, `a token\n`),
}

// open starts a stream in which the piece can be repeated.
func open(t testing.TB, request, name string) *harness {
	return reopen(newHarness(t, testOptions, request), name)
}

func reopen(h *harness, name string) *harness {
	h.begin(true, false)
	switch name {
	case "arguments":
		call(0, "call_1", "plain")(&h.b)
	case "custom":
		inOneBatch(call(1, "call_2", "exec"), args(1, `{"input":"`))(&h.b)
	}
	h.apply(nil)
	return h
}

const delta = `{"type":"response.output_text.delta","content_index":0,"delta":" token","item_id":"msg_0200025d411b0585016a3c13b6174481a392b9817b2c15a5b4","logprobs":[],"obfuscation":"DQVHD6AboERE","output_index":1,"sequence_number":9}`

func TestEventsDoNotAllocate(t *testing.T) {
	for name, piece := range pieces {
		h := open(t, customTools+`,`+wantsSummary+`,"store":false`, name)
		once := func() {
			piece(&h.b)
			h.apply(nil)
			h.w.Consume()
		}
		for range 2000 {
			once() // let the buffers of the response grow
		}
		if n := testing.AllocsPerRun(200, once); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	for _, pass := range []bool{false, true} {
		h := newHarness(t, testOptions, `"store":false`)
		h.begin(true, pass)
		event, name := []byte(delta), []byte("response.output_text.delta")
		once := func() {
			h.apply(h.reader.ReadEvent(name, event, &h.b))
			h.w.Consume()
		}
		for range 2000 {
			once()
		}
		if n := testing.AllocsPerRun(200, once); n != 0 {
			t.Errorf("read, passed on %v: %v allocations", pass, n)
		}
	}
}

// BenchmarkRender measures rendering one piece of a stream, in the Responses and chat completions APIs.
func BenchmarkRender(b *testing.B) {
	for _, name := range []string{"text", "reasoning", "arguments", "custom"} {
		b.Run("responses/"+name, func(b *testing.B) {
			h := open(b, customTools+`,`+wantsSummary+`,"store":false`, name)
			run(b, h.w, &h.b, func() { h = reopen(h, name) }, pieces[name])
		})
		if name == "custom" {
			continue
		}
		b.Run("chat/"+name, func(b *testing.B) {
			w := openai.NewWriter()
			var batch response.Batch
			restart := func() {
				w.Reset(response.Options{Stream: true, ID: "chatcmpl-test", Model: "target", Created: created})
				batch.Reset()
				call(0, "call_1", "plain")(&batch)
				if err := w.Apply(&batch); err != nil {
					b.Fatal(err)
				}
			}
			restart()
			run(b, w, &batch, restart, pieces[name])
		})
	}
}

// run repeats a piece. It restarts the response before that reaches its size limit.
func run(b *testing.B, w *response.Writer, batch *response.Batch, restart func(), piece step) {
	b.ReportAllocs()
	for n := 1; b.Loop(); n++ {
		if n%100_000 == 0 {
			restart()
		}
		batch.Reset()
		piece(batch)
		if err := w.Apply(batch); err != nil {
			b.Fatal(err)
		}
		w.Consume()
	}
}

// BenchmarkRead measures an event of a provider that speaks the Responses API, rendered or passed on.
func BenchmarkRead(b *testing.B) {
	for mode, pass := range map[string]bool{"rendered": false, "passed on": true} {
		b.Run(mode, func(b *testing.B) {
			h := newHarness(b, testOptions, `"store":false`)
			restart := func() { h.begin(true, pass) }
			restart()
			event, name := []byte(delta), []byte("response.output_text.delta")
			run(b, h.w, &h.b, restart, func(batch *response.Batch) {
				if err := h.reader.ReadEvent(name, event, batch); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}

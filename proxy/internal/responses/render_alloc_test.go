//go:build !race

package responses_test

import (
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/openai"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// pieces are what streams are made of.
var pieces = map[string]step{
	"text":      text("a token"),
	"reasoning": think(abi.ReasoningText, 0, "a token"),
	"arguments": args(0, `{"a":`),
	"custom":    args(1, `a token\n`),
}

// open prepares a stream in which the pieces are all there is.
func open(t testing.TB, request, name string) *gateway {
	return reopen(newGateway(t, testOptions, request), name)
}

func reopen(g *gateway, name string) *gateway {
	g.begin(true, false)
	switch name {
	case "arguments":
		call(0, "call_1", "plain")(&g.b)
	case "custom":
		with(call(1, "call_2", "exec"), args(1, `{"input":"`))(&g.b)
	}
	g.apply(nil)
	return g
}

const delta = `{"type":"response.output_text.delta","content_index":0,"delta":" token","item_id":"msg_0200025d411b0585016a3c13b6174481a392b9817b2c15a5b4","logprobs":[],"obfuscation":"DQVHD6AboERE","output_index":1,"sequence_number":9}`

func TestEventsDoNotAllocate(t *testing.T) {
	for name, piece := range pieces {
		g := open(t, customTools+`,`+wantsSummary+`,"store":false`, name)
		once := func() {
			piece(&g.b)
			g.apply(nil)
			g.w.Consume()
		}
		for range 2000 {
			once() // what is kept of the response grows now and then
		}
		if n := testing.AllocsPerRun(200, once); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	for _, pass := range []bool{false, true} {
		g := newGateway(t, testOptions, `"store":false`)
		g.begin(true, pass)
		event, name := []byte(delta), []byte("response.output_text.delta")
		once := func() {
			g.apply(g.reader.ReadEvent(name, event, &g.b))
			g.w.Consume()
		}
		for range 2000 {
			once()
		}
		if n := testing.AllocsPerRun(200, once); n != 0 {
			t.Errorf("read, passed on %v: %v allocations", pass, n)
		}
	}
}

// BenchmarkRender measures one piece of a stream, as chat completions and as Responses.
func BenchmarkRender(b *testing.B) {
	for _, name := range []string{"text", "reasoning", "arguments", "custom"} {
		b.Run("responses/"+name, func(b *testing.B) {
			g := open(b, customTools+`,`+wantsSummary+`,"store":false`, name)
			run(b, g.w, &g.b, func() { g = reopen(g, name) }, pieces[name])
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

// run applies a piece again and again. What is kept of a response is bounded, so it begins anew now and then.
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

// BenchmarkRead measures an event of a provider that speaks the API, read and rendered, and read and passed on.
func BenchmarkRead(b *testing.B) {
	for name, pass := range map[string]bool{"rendered": false, "passed on": true} {
		b.Run(name, func(b *testing.B) {
			g := newGateway(b, testOptions, `"store":false`)
			restart := func() { g.begin(true, pass) }
			restart()
			event, word := []byte(delta), []byte("response.output_text.delta")
			run(b, g.w, &g.b, restart, func(batch *response.Batch) {
				if err := g.reader.ReadEvent(word, event, batch); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}

//go:build !race

package filter_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/openai"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// eventAllocations plays rounds of reads through a gate, and returns the allocations of a round after the first ones.
func eventAllocations(t *testing.T, g *gate, round func() error) float64 {
	t.Helper()
	play := func() {
		if err := round(); err != nil {
			t.Fatal(err)
		}
		g.w.Consume()
	}
	for range 10 {
		play()
	}
	return testing.AllocsPerRun(200, play)
}

// TestFilteredEventDoesNotAllocate counts the allocations of events that no filter changes, that one holds the end of, and that one
// changes, of responses that are translated and of those that are passed on.
func TestFilteredEventDoesNotAllocate(t *testing.T) {
	filters := bound(t, word{find: "secret", put: "***"}, word{find: "***token", put: "\u20ac"})
	pieces := map[string][]string{
		"unchanged": {"some words of an answer that are more than a few, and ", "answer with \"quotation\" marks"},
		"held":      {"some words of a se", "ries of sec", "onds"},
		"changed":   {"a text of some length, which ends in the mid of a se", "cret", "token or two of secret things"},
	}
	t.Run("translated", func(t *testing.T) {
		for kind, texts := range pieces {
			g := newGate(t, openai.API(), filters, true)
			var b response.Batch
			n := eventAllocations(t, g, func() error {
				for _, s := range texts {
					b.Reset()
					b.Text(0, abi.EncodingUTF8, []byte(s))
					if err := g.w.Apply(&b); err != nil {
						return err
					}
					if err := g.filtered.Run(t.Context()); err != nil {
						return err
					}
				}
				return nil
			})
			if n != 0 {
				t.Errorf("%s: %v allocations for %d events", kind, n, len(texts))
			}
		}
		calls := int32(0)
		g := newGate(t, openai.API(), filters, true)
		var b response.Batch
		n := eventAllocations(t, g, func() error {
			b.Reset()
			b.ToolArguments(0, 0, abi.EncodingUTF8, []byte(`{"path":"a secret \"place\""}`))
			if calls++; calls == 1 {
				b.Reset()
				b.ToolCall(0, 0, []byte("c"), []byte("f"))
			}
			if err := g.w.Apply(&b); err != nil {
				return err
			}
			return g.filtered.Run(t.Context())
		})
		if n > 0.2 { // what waits grows
			t.Errorf("tool arguments: %v allocations an event", n)
		}
	})
	pieces["arguments"] = []string{`{"path":"a `, `sec`, `ret","n":[1,`, `2]}`}
	type event struct{ name, data []byte }
	bytesOf := func(frames []frame) (events []event) {
		for _, f := range frames {
			events = append(events, event{[]byte(f.name), []byte(f.data)})
		}
		return events
	}
	for name, api := range nativeAPIs() {
		t.Run(name, func(t *testing.T) {
			for kind, texts := range pieces {
				var begin, frames []frame
				if kind == "arguments" {
					begin, frames = toolCall(name, texts)
				} else {
					begin, frames = deltas(name, texts)
				}
				g := newGate(t, api, filters, true)
				reader := g.pass(api)
				var b response.Batch
				send := func(events []event) error {
					for _, e := range events {
						b.Reset()
						if err := reader.ReadEvent(e.name, e.data, &b); err != nil {
							return err
						}
						if err := g.w.Apply(&b); err != nil {
							return err
						}
						if err := g.filtered.Run(t.Context()); err != nil {
							return err
						}
					}
					return nil
				}
				if err := send(bytesOf(begin)); err != nil {
					t.Fatal(err)
				}
				events := bytesOf(frames)
				if n := eventAllocations(t, g, func() error { return send(events) }); n != 0 {
					t.Errorf("%s: %v allocations for %d events", kind, n, len(texts))
				}
			}
		})
	}
}

// deltas are the events of a text in an API: those before it, and those of its pieces.
func deltas(api string, texts []string) (begin, pieces []frame) {
	for _, f := range nativeFrames(api, texts, []string{"{}"}) {
		for _, s := range texts {
			if f.data[len(f.data)-1] == '}' && pieceOf(f, s) {
				pieces = append(pieces, f)
			}
		}
		if len(pieces) == 0 {
			begin = append(begin, f)
		}
	}
	if len(pieces) != len(texts) {
		panic(fmt.Sprint(len(pieces), " events of ", len(texts), " pieces"))
	}
	return begin, pieces
}

// toolCall are the events of a tool call with these pieces of arguments: its first one, and those that a test may repeat.
func toolCall(api string, args []string) (begin, frames []frame) {
	for _, f := range nativeFrames(api, []string{"text"}, args) {
		switch f.name {
		case "content_block_start":
			begin = append(begin, f)
		case "content_block_stop", "content_block_delta":
			if strings.Contains(f.data, `"index":1`) {
				frames = append(frames, f)
			}
		case "response.function_call_arguments.delta", "response.function_call_arguments.done":
			frames = append(frames, f)
		}
	}
	return begin, frames
}

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

// eventAllocations returns the allocations of a round of reads, after the buffers of pl have grown.
func eventAllocations(t *testing.T, pl *pipeline, round func() error) float64 {
	t.Helper()
	play := func() {
		if err := round(); err != nil {
			t.Fatal(err)
		}
		pl.w.Consume()
	}
	for range 10 {
		play()
	}
	return testing.AllocsPerRun(200, play)
}

// TestFilteredEventDoesNotAllocate counts the allocations of events whose text no filter changes, a filter holds, or a
// filter changes, in translated responses and in those that are passed on.
func TestFilteredEventDoesNotAllocate(t *testing.T) {
	filters := bindFilters(t, wordFilter{find: "secret", put: "***"}, wordFilter{find: "***token", put: "\u20ac"})
	pieces := map[string][]string{
		"unchanged": {"some words of an answer that are more than a few, and ", "answer with \"quotation\" marks"},
		"held":      {"some words of a se", "ries of sec", "onds"},
		"changed":   {"a text of some length, which ends in the mid of a se", "cret", "token or two of secret things"},
	}
	t.Run("translated", func(t *testing.T) {
		for kind, texts := range pieces {
			pl := newPipeline(t, openai.API(), filters, true)
			var b response.Batch
			n := eventAllocations(t, pl, func() error {
				for _, s := range texts {
					b.Reset()
					b.Text(0, abi.EncodingUTF8, []byte(s))
					if err := pl.w.Apply(&b); err != nil {
						return err
					}
					if err := pl.filtered.Run(t.Context()); err != nil {
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
		pl := newPipeline(t, openai.API(), filters, true)
		var b response.Batch
		n := eventAllocations(t, pl, func() error {
			b.Reset()
			b.ToolArguments(0, 0, abi.EncodingUTF8, []byte(`{"path":"a secret \"place\""}`))
			if calls++; calls == 1 {
				b.Reset()
				b.ToolCall(0, 0, []byte("c"), []byte("f"))
			}
			if err := pl.w.Apply(&b); err != nil {
				return err
			}
			return pl.filtered.Run(t.Context())
		})
		if n > 0.2 { // the buffer of held arguments grows
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
				pl := newPipeline(t, api, filters, true)
				reader := pl.pass(api)
				var b response.Batch
				send := func(events []event) error {
					for _, e := range events {
						b.Reset()
						if err := reader.ReadEvent(e.name, e.data, &b); err != nil {
							return err
						}
						if err := pl.w.Apply(&b); err != nil {
							return err
						}
						if err := pl.filtered.Run(t.Context()); err != nil {
							return err
						}
					}
					return nil
				}
				if err := send(bytesOf(begin)); err != nil {
					t.Fatal(err)
				}
				events := bytesOf(frames)
				if n := eventAllocations(t, pl, func() error { return send(events) }); n != 0 {
					t.Errorf("%s: %v allocations for %d events", kind, n, len(texts))
				}
			}
		})
	}
}

// deltas returns the events of a text in an API: those before it, and those with its pieces.
func deltas(api string, texts []string) (begin, pieces []frame) {
	for _, f := range nativeFrames(api, texts, []string{"{}"}) {
		for _, s := range texts {
			if f.data[len(f.data)-1] == '}' && isPieceOf(f, s) {
				pieces = append(pieces, f)
			}
		}
		if len(pieces) == 0 {
			begin = append(begin, f)
		}
	}
	if len(pieces) != len(texts) {
		panic(fmt.Sprint(len(pieces), " events for ", len(texts), " pieces"))
	}
	return begin, pieces
}

// toolCall returns the events of a tool call with these pieces of arguments: the one that starts it, and those that a
// test may repeat.
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

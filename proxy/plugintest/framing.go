package plugintest

import (
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/framing/eventstream"
	"github.com/sluice-gateway/sluice/proxy/internal/framing/ndjson"
	"github.com/sluice-gateway/sluice/proxy/internal/framing/sse"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// event is one event of an answer. Its slices are valid until the decoder is used again.
type event struct {
	kind       abi.EventKind
	name, data []byte
}

// decoder cuts an answer into events: one of the gateway's own decoders.
type decoder struct {
	feed      func(p []byte)
	next, end func() (event, bool, error)
}

// answerForms are the files that hold an answer, and the content type that each stands for.
var answerForms = [...]struct{ file, contentType string }{
	{"answer.json", "application/json"},
	{"answer.sse", "text/event-stream"},
	{"answer.ndjson", "application/x-ndjson"},
	{"answer.eventstream", "application/vnd.amazon.eventstream"},
}

// decoderOf is a decoder for a content type; ok is false for one document.
func decoderOf(contentType string) (d decoder, ok bool) {
	media, _, _ := strings.Cut(contentType, ";")
	switch strings.TrimSpace(media) {
	case "text/event-stream":
		d := new(sse.Decoder)
		plain := func(e sse.Event, ok bool, err error) (event, bool, error) {
			return event{name: e.Name, data: e.Data}, ok, err
		}
		return decoder{
			feed: d.Feed,
			next: func() (event, bool, error) { return plain(d.Next()) },
			end:  func() (event, bool, error) { return plain(d.End()) },
		}, true
	case "application/x-ndjson":
		d := new(ndjson.Decoder)
		plain := func(e ndjson.Event, ok bool, err error) (event, bool, error) {
			return event{name: e.Name, data: e.Data}, ok, err
		}
		return decoder{
			feed: d.Feed,
			next: func() (event, bool, error) { return plain(d.Next()) },
			end:  func() (event, bool, error) { return plain(d.End()) },
		}, true
	case "application/vnd.amazon.eventstream":
		d := new(eventstream.Decoder)
		typed := func(e eventstream.Event, ok bool, err error) (event, bool, error) {
			return event{e.Kind, e.Name, e.Data}, ok, err
		}
		return decoder{
			feed: d.Feed,
			next: func() (event, bool, error) { return typed(d.Next()) },
			end:  func() (event, bool, error) { return typed(d.End()) },
		}, true
	}
	return decoder{}, false
}

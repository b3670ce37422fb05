package plugintest

import (
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/framing/eventstream"
	"github.com/sluice-gateway/sluice/proxy/internal/framing/ndjson"
	"github.com/sluice-gateway/sluice/proxy/internal/framing/sse"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Event is one event of an upstream's stream.
type Event struct {
	Kind       abi.EventKind // of an AWS event stream
	Name, Data string
}

// decoder cuts a body into events: one of the gateway's own decoders.
type decoder struct {
	feed      func(p []byte)
	next, end func() (Event, bool, error)
}

// responseFiles are the files that hold a response, and the content type that each stands for.
var responseFiles = [...]struct{ file, contentType string }{
	{"answer.json", "application/json"},
	{"answer.sse", "text/event-stream"},
	{"answer.ndjson", "application/x-ndjson"},
	{"answer.eventstream", "application/vnd.amazon.eventstream"},
}

// newDecoder makes the decoder for a content type; ok is false for one document.
func newDecoder(contentType string) (d decoder, ok bool) {
	media, _, _ := strings.Cut(contentType, ";")
	switch strings.TrimSpace(media) {
	case "text/event-stream":
		d := new(sse.Decoder)
		plain := func(e sse.Event, ok bool, err error) (Event, bool, error) {
			return Event{Name: string(e.Name), Data: string(e.Data)}, ok, err
		}
		return decoder{
			feed: d.Feed,
			next: func() (Event, bool, error) { return plain(d.Next()) },
			end:  func() (Event, bool, error) { return plain(d.End()) },
		}, true
	case "application/x-ndjson":
		d := new(ndjson.Decoder)
		plain := func(e ndjson.Event, ok bool, err error) (Event, bool, error) {
			return Event{Name: string(e.Name), Data: string(e.Data)}, ok, err
		}
		return decoder{
			feed: d.Feed,
			next: func() (Event, bool, error) { return plain(d.Next()) },
			end:  func() (Event, bool, error) { return plain(d.End()) },
		}, true
	case "application/vnd.amazon.eventstream":
		d := new(eventstream.Decoder)
		typed := func(e eventstream.Event, ok bool, err error) (Event, bool, error) {
			return Event{e.Kind, string(e.Name), string(e.Data)}, ok, err
		}
		return decoder{
			feed: d.Feed,
			next: func() (Event, bool, error) { return typed(d.Next()) },
			end:  func() (Event, bool, error) { return typed(d.End()) },
		}, true
	}
	return decoder{}, false
}

// SplitEvents is the events of a stream, as far as it can be read.
func SplitEvents(contentType string, body []byte) (events []Event) {
	d, ok := newDecoder(contentType)
	if !ok {
		return nil
	}
	d.feed(body)
	for {
		e, ok, err := d.next()
		if err != nil || !ok {
			return events
		}
		events = append(events, e)
	}
}

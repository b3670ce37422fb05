package plugindev

import (
	"github.com/sluice-gateway/sluice/proxy/internal/framing"
	"github.com/sluice-gateway/sluice/proxy/internal/framing/decoders"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Event is one event of an upstream's stream.
type Event struct {
	Kind       abi.EventKind // of an AWS event stream
	Name, Data string
}

// responseFiles are the extensions of files that hold a response, and the content type that each stands for.
var responseFiles = [...]struct{ extension, contentType string }{
	{".json", "application/json"},
	{".sse", "text/event-stream"},
	{".ndjson", "application/x-ndjson"},
	{".eventstream", "application/vnd.amazon.eventstream"},
}

// newDecoder returns a decoder for a content type, of a response for which the plugin has declared a framing; nil for one document.
func newDecoder(contentType string, declared abi.Framing) framing.Decoder {
	media := string(framing.MediaType([]byte(contentType)))
	for _, f := range []abi.Framing{declared, abi.FramingSSE, abi.FramingNDJSON, abi.FramingAWSEventStream} {
		if media == framing.ContentType(f) && f != abi.FramingJSON {
			return new(decoders.Set).Open(f, 0)
		}
	}
	return nil
}

// SplitEvents returns the events of a stream, as far as it can be read.
func SplitEvents(contentType string, body []byte) (events []Event) {
	d := newDecoder(contentType, abi.FramingJSON)
	if d == nil {
		return nil
	}
	d.Feed(body)
	for {
		ev, ok, err := d.Next()
		if err != nil || !ok {
			return events
		}
		events = append(events, Event{Kind: ev.Kind, Name: string(ev.Name), Data: string(ev.Data)})
	}
}

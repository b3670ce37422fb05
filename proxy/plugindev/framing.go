package plugindev

import (
	"github.com/sluice-gateway/sluice/proxy/internal/framing"
	"github.com/sluice-gateway/sluice/proxy/internal/framing/decoders"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Event is one event of an upstream's stream.
type Event struct {
	Kind       abi.EventKind // kind of an AWS event
	Name, Data string
}

// responseFiles lists the extensions of response files with their content types.
var responseFiles = [...]struct{ extension, contentType string }{
	{".json", "application/json"},
	{".sse", "text/event-stream"},
	{".ndjson", "application/x-ndjson"},
	{".eventstream", "application/vnd.amazon.eventstream"},
}

// newDecoder returns a decoder for a response with a content type, for which the plugin has declared a framing. It is
// nil if the response is one document.
func newDecoder(contentType string, declared abi.Framing) framing.Decoder {
	media := string(framing.MediaType([]byte(contentType)))
	for _, f := range []abi.Framing{declared, abi.FramingSSE, abi.FramingNDJSON, abi.FramingAWSEventStream} {
		if media == framing.ContentType(f) && f != abi.FramingJSON {
			return new(decoders.Set).Open(f, 0)
		}
	}
	return nil
}

// SplitEvents returns the events of a stream, up to the first error.
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

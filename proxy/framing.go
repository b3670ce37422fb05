package proxy

import (
	"bytes"

	"github.com/sluice-gateway/sluice/proxy/internal/framing/eventstream"
	"github.com/sluice-gateway/sluice/proxy/internal/framing/ndjson"
	"github.com/sluice-gateway/sluice/proxy/internal/framing/sse"
	"github.com/sluice-gateway/sluice/proxy/internal/httpfield"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// event is one event of a provider's stream. Its slices are valid until the framer is used again.
type event struct {
	kind       abi.EventKind
	name, data []byte
}

// framer cuts the body of an answer into events. The decoder of the framing at hand does the work; the others cost
// nothing while they are not used.
type framer struct {
	framing abi.Framing
	sse     sse.Decoder
	ndjson  ndjson.Decoder
	aws     eventstream.Decoder
}

// reset begins a body.
func (f *framer) reset(framing abi.Framing) {
	f.framing = framing
	f.sse.Reset()
	f.ndjson.Reset()
	f.aws.Reset()
}

// feed takes the next bytes of the body, which must stay as they are until next answers that there is no event.
func (f *framer) feed(p []byte) {
	switch f.framing {
	case abi.FramingNDJSON:
		f.ndjson.Feed(p)
	case abi.FramingAWSEventStream:
		f.aws.Feed(p)
	default:
		f.sse.Feed(p)
	}
}

// next returns the next event; ok is false where more bytes are needed.
func (f *framer) next() (ev event, ok bool, err error) {
	switch f.framing {
	case abi.FramingNDJSON:
		e, ok, err := f.ndjson.Next()
		return event{name: e.Name, data: e.Data}, ok, err
	case abi.FramingAWSEventStream:
		e, ok, err := f.aws.Next()
		return event{e.Kind, e.Name, e.Data}, ok, err
	}
	e, ok, err := f.sse.Next()
	return event{name: e.Name, data: e.Data}, ok, err
}

// end returns an event that the end of the body completes, until there is none.
func (f *framer) end() (ev event, ok bool, err error) {
	switch f.framing {
	case abi.FramingNDJSON:
		e, ok, err := f.ndjson.End()
		return event{name: e.Name, data: e.Data}, ok, err
	case abi.FramingAWSEventStream:
		e, ok, err := f.aws.End()
		return event{e.Kind, e.Name, e.Data}, ok, err
	}
	e, ok, err := f.sse.End()
	return event{name: e.Name, data: e.Data}, ok, err
}

// mediaTypes is what each framing is asked for by.
var mediaTypes = [...]string{
	abi.FramingJSON:           "application/json",
	abi.FramingSSE:            "text/event-stream",
	abi.FramingNDJSON:         "application/x-ndjson",
	abi.FramingAWSEventStream: "application/vnd.amazon.eventstream",
}

// framingOf says how an answer that begins with first is framed; ok is false where it is nothing that could be read.
// What an answer is says its first byte more surely than its content type: providers answer a streamed request with a
// JSON error, and the reverse. declared is what the plugin expects.
func framingOf(contentType, first []byte, declared abi.Framing) (framing abi.Framing, ok bool) {
	media := mediaType(contentType)
	switch {
	case httpfield.EqualFold(media, mediaTypes[abi.FramingAWSEventStream]):
		return abi.FramingAWSEventStream, true
	case httpfield.EqualFold(media, mediaTypes[abi.FramingNDJSON]), httpfield.EqualFold(media, "application/ndjson"), httpfield.EqualFold(media, "application/jsonl"):
		return abi.FramingNDJSON, true
	}
	first = bytes.TrimLeft(bytes.TrimPrefix(first, []byte("\xef\xbb\xbf")), " \t\r\n")
	switch {
	case len(first) > 0 && (first[0] == '{' || first[0] == '['):
		if declared == abi.FramingNDJSON && !httpfield.EqualFold(media, mediaTypes[abi.FramingJSON]) {
			return abi.FramingNDJSON, true
		}
		return abi.FramingJSON, true
	case httpfield.EqualFold(media, mediaTypes[abi.FramingSSE]):
		return abi.FramingSSE, true
	}
	for _, field := range []string{"data:", "event:", "id:", "retry:", ":"} {
		if len(first) > 0 && bytes.HasPrefix(first, []byte(field)[:min(len(field), len(first))]) {
			return abi.FramingSSE, true
		}
	}
	return abi.FramingJSON, isJSON(contentType)
}

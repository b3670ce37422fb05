package framing

import (
	"bytes"

	"github.com/sluice-gateway/sluice/proxy/internal/httpfield"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// contentTypes are the media types of the framings.
var contentTypes = [...]string{
	abi.FramingJSON:           "application/json",
	abi.FramingSSE:            "text/event-stream",
	abi.FramingNDJSON:         "application/x-ndjson",
	abi.FramingAWSEventStream: "application/vnd.amazon.eventstream",
	abi.FramingAWSInvoke:      "application/vnd.amazon.eventstream",
}

// ContentType returns the media type of a framing, for an Accept header.
func ContentType(f abi.Framing) string { return contentTypes[f] }

// Detect returns the framing of a body that begins with first, which must not be empty. declared is the framing that
// the plugin expects. ok is false if the framing is unknown.
//
// For JSON and SSE, the first byte takes precedence over the content type, because providers send a JSON error in
// response to a streaming request, and events in response to a non-streaming one.
func Detect(contentType, first []byte, declared abi.Framing) (f abi.Framing, ok bool) {
	media := MediaType(contentType)
	switch {
	case httpfield.EqualFold(media, contentTypes[abi.FramingAWSEventStream]):
		if declared == abi.FramingAWSInvoke {
			return declared, true
		}
		return abi.FramingAWSEventStream, true
	case httpfield.EqualFold(media, contentTypes[abi.FramingNDJSON]), httpfield.EqualFold(media, "application/ndjson"), httpfield.EqualFold(media, "application/jsonl"):
		return abi.FramingNDJSON, true
	}
	first = bytes.TrimLeft(bytes.TrimPrefix(first, []byte("\xef\xbb\xbf")), " \t\r\n")
	switch {
	case len(first) > 0 && (first[0] == '{' || first[0] == '['):
		if declared == abi.FramingNDJSON && !httpfield.EqualFold(media, contentTypes[abi.FramingJSON]) {
			return abi.FramingNDJSON, true
		}
		return abi.FramingJSON, true
	case httpfield.EqualFold(media, contentTypes[abi.FramingSSE]):
		return abi.FramingSSE, true
	}
	for _, field := range []string{"data:", "event:", "id:", "retry:", ":"} {
		if len(first) > 0 && bytes.HasPrefix(first, []byte(field)[:min(len(field), len(first))]) {
			return abi.FramingSSE, true
		}
	}
	return abi.FramingJSON, IsJSON(contentType)
}

// IsJSON reports whether a content type is JSON or a format based on it (+json).
func IsJSON(contentType []byte) bool {
	m := MediaType(contentType)
	return httpfield.EqualFold(m, contentTypes[abi.FramingJSON]) || len(m) > 5 && httpfield.EqualFold(m[len(m)-5:], "+json")
}

// MediaType returns a content type without its parameters.
func MediaType(contentType []byte) []byte {
	m, _, _ := bytes.Cut(contentType, []byte(";"))
	return bytes.TrimSpace(m)
}

package bedrock

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

// responseUses are models and requests with which the plugin reads responses in different ways.
var responseUses = []plugintest.FuzzUse{
	{Target: "anthropic.claude"},
	{Target: "anthropic.claude", Request: `{"model":"m","messages":[{"role":"user","content":"Hi"}],"response_format":{"type":"json_object"}}`},
	{Target: "xai.grok"},
}

const eventStream = "application/vnd.amazon.eventstream"

// script returns a stream as lines of text, one per event: its kind, name and data. The fuzzer mutates the lines, so
// that the binary frames remain valid.
func script(body []byte) (lines []string) {
	for _, e := range plugintest.SplitEvents(eventStream, body) {
		lines = append(lines, fmt.Sprintf("%d %s %s", e.Kind, e.Name, e.Data))
	}
	return lines
}

// scripts returns the scripts of all vectors with a stream.
func scripts(tb testing.TB) (all [][]string) {
	tb.Helper()
	for _, v := range suite.Vectors(tb) {
		if v.ContentType == eventStream && len(v.Response) > 0 {
			all = append(all, script(v.Response))
		}
	}
	return all
}

// frames encodes the lines of a script as a stream.
func frames(lines []string) []byte {
	body := []byte{}
	for _, line := range lines {
		kind, rest, _ := strings.Cut(line, " ")
		name, data, _ := strings.Cut(rest, " ")
		var headers []byte
		header := func(name, value string) {
			headers = append(append(headers, byte(len(name))), name...)
			headers = append(binary.BigEndian.AppendUint16(append(headers, 7), uint16(len(value))), value...)
		}
		name = name[:min(len(name), 1000)]
		switch kind {
		case "1":
			header(":message-type", "exception")
			header(":exception-type", name)
		case "2":
			header(":message-type", "error")
			header(":error-code", name)
			header(":error-message", data[:min(len(data), 1000)])
			data = ""
		default:
			header(":message-type", "event")
			header(":event-type", name)
		}
		start := len(body)
		body = binary.BigEndian.AppendUint32(body, uint32(16+len(headers)+len(data)))
		body = binary.BigEndian.AppendUint32(body, uint32(len(headers)))
		body = binary.BigEndian.AppendUint32(body, crc32.ChecksumIEEE(body[start:]))
		body = append(append(body, headers...), data...)
		body = binary.BigEndian.AppendUint32(body, crc32.ChecksumIEEE(body[start:]))
	}
	return body
}

func TestScriptsRoundTrip(t *testing.T) {
	all := scripts(t)
	for _, lines := range all {
		if again := script(frames(lines)); !slices.Equal(lines, again) {
			t.Errorf("%q becomes %q", lines, again)
		}
	}
	if len(all) < 30 {
		t.Errorf("got %d streams, want at least 30", len(all))
	}
}

func run(t *testing.T, b *plugintest.Binding, use int, v plugintest.Vector) {
	t.Helper()
	v.Target, v.Request = responseUses[use].Target, []byte(responseUses[use].Request)
	if len(v.Request) == 0 {
		v.Request = []byte(plugintest.Hello)
	}
	b.CheckResponses(t, &v)
}

// FuzzEvent checks that no stream makes the plugin crash, and that the client always receives exactly one end of the
// response.
func FuzzEvent(f *testing.F) {
	for _, lines := range scripts(f) {
		for use := range responseUses {
			f.Add(strings.Join(lines, "\n"), use)
		}
	}
	b := suite.Bind(f, plugintest.Native)
	f.Fuzz(func(t *testing.T, lines string, use int) {
		if use < 0 || use >= len(responseUses) || len(lines) > 1<<16 {
			return
		}
		run(t, b, use, plugintest.Vector{Response: frames(strings.Split(lines, "\n")), Status: 200, ContentType: eventStream})
	})
}

// FuzzEventsOutOfOrder reorders, drops and repeats events of streams, and moves them to other blocks. Each step is four
// bytes: the stream, the first event, the number of events, and the change of the block's index.
func FuzzEventsOutOfOrder(f *testing.F) {
	suite.FuzzEventOrder(f, eventStream, `"contentBlockIndex":`, scripts(f), frames, responseUses...)
}

// FuzzResponse is FuzzEvent for non-streaming responses and errors.
func FuzzResponse(f *testing.F) {
	for _, v := range suite.Vectors(f) {
		if v.Response != nil && v.ContentType != eventStream {
			for use := range responseUses {
				f.Add(v.Response, v.Status, v.Headers["x-amzn-errortype"], use)
			}
		}
	}
	b := suite.Bind(f, plugintest.Native)
	f.Fuzz(func(t *testing.T, body []byte, status int, errorType string, use int) {
		if body == nil || status < 200 || status > 599 || use < 0 || use >= len(responseUses) {
			return
		}
		run(t, b, use, plugintest.Vector{
			Response: body, Status: status, ContentType: "application/json", Headers: map[string]string{"x-amzn-errortype": errorType},
		})
	})
}

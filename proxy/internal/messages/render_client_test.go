package messages_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/ssestream"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/messages"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/proxy/internal/thinking"
)

var sealer = thinking.NewSealer([]byte("0123456789abcdef0123456789abcdef"))

// messageWriter is a writer with a renderer for the Messages API.
type messageWriter struct {
	*response.Writer
	r clientapi.Renderer
}

func newMessageWriter() messageWriter {
	r := messages.NewRenderer(sealer)
	return messageWriter{response.NewWriter(r), r}
}

// reset prepares for another response. pass is set if it will be passed on.
func (w messageWriter) reset(stream, pass bool) {
	w.Reset(writerOptions(stream))
	w.r.Respond(nil)
	if pass {
		w.r.Pass()
	}
}

func writerOptions(stream bool) response.Options {
	return response.Options{Stream: stream, ID: "msg_own", RequestID: "req-1", Model: "asked", Created: 1700000000, PromptEstimate: 7}
}

// apply applies a batch as the gateway does. It returns only errors that do not reach the client: a plugin's violations
// of the contract.
func (w messageWriter) apply(b *response.Batch, err error) error {
	if err == nil {
		err = w.Apply(b)
	}
	var e *apierror.Error
	if errors.As(err, &e) {
		w.Fail(e)
		return nil
	}
	return err
}

// sdkMessage returns the message that the official client reads from a stream, and the error that it raises.
func sdkMessage(tb testing.TB, stream []byte) (m anthropic.Message, err error) {
	tb.Helper()
	res := &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(bytes.NewReader(stream))}
	s := ssestream.NewStream[anthropic.MessageStreamEventUnion](ssestream.NewDecoder(res), nil)
	for s.Next() {
		if err := m.Accumulate(s.Current()); err != nil {
			tb.Fatalf("the client rejects %s: %v", s.Current().RawJSON(), err)
		}
	}
	return m, s.Err()
}

// sdkResponse returns the message that the official client reads from a non-streaming response.
func sdkResponse(tb testing.TB, body []byte) (m anthropic.Message) {
	tb.Helper()
	if err := json.Unmarshal(body, &m); err != nil {
		tb.Fatalf("%v in %s", err, body)
	}
	return m
}

// summarize formats the contents of a message, regardless of their representation.
func summarize(tb testing.TB, m anthropic.Message) string {
	tb.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s\n", m.ID, m.Model, m.Role)
	for _, c := range m.Content {
		switch c.Type {
		case "text":
			fmt.Fprintf(&b, "text %q\n", c.Text)
		case "thinking":
			fmt.Fprintf(&b, "thinking %q, signature %q\n", c.Thinking, c.Signature)
		case "redacted_thinking":
			fmt.Fprintf(&b, "redacted %q\n", c.Data)
		case "tool_use":
			fmt.Fprintf(&b, "call %s %s %s\n", c.ID, c.Name, c.Input)
		default:
			fmt.Fprintf(&b, "%s\n", c.RawJSON())
		}
	}
	u := m.Usage
	fmt.Fprintf(&b, "%s %q, %d in, %d written, %d read, %d out, %d thinking\n", m.StopReason, m.StopSequence,
		u.InputTokens, u.CacheCreationInputTokens, u.CacheReadInputTokens, u.OutputTokens, u.OutputTokensDetails.ThinkingTokens)
	return b.String()
}

// frame is a rendered event of a stream.
type frame struct {
	name string
	data struct {
		Type    string
		Index   int
		Message struct {
			Content []any
			Usage   map[string]any
		}
		ContentBlock map[string]any `json:"content_block"`
		Delta        map[string]any
		Usage        map[string]any
		Error        map[string]any
	}
}

// frames splits a stream into events and checks the format of each.
func frames(tb testing.TB, stream []byte) (all []frame) {
	tb.Helper()
	text, ok := strings.CutSuffix(string(stream), "\n\n")
	if !ok && len(stream) > 0 {
		tb.Fatalf("the stream ends with %q", stream[max(0, len(stream)-20):])
	}
	for part := range strings.SplitSeq(text, "\n\n") {
		if part == "" {
			continue
		}
		var f frame
		name, data, _ := strings.Cut(part, "\n")
		f.name, ok = strings.CutPrefix(name, "event: ")
		data, isData := strings.CutPrefix(data, "data: ")
		if !ok || !isData || strings.ContainsAny(data, "\r\n") {
			tb.Fatalf("invalid event %q", part)
		}
		if err := json.Unmarshal([]byte(data), &f.data); err != nil || f.data.Type != f.name {
			tb.Fatalf("%v in %q", err, part)
		}
		all = append(all, f)
	}
	return all
}

// deltaTypes lists the types of delta for each type of block.
var deltaTypes = map[string][]string{
	"text": {"text_delta"}, "thinking": {"thinking_delta", "signature_delta"}, "tool_use": {"input_json_delta"}, "redacted_thinking": nil,
}

// checkFrames checks a stream that the renderer has written: the order of events, the indices of blocks, the types of
// their deltas, the signature of each thinking block, and the end.
func checkFrames(tb testing.TB, w *response.Writer) {
	tb.Helper()
	all := frames(tb, w.Output())
	wrong := func(i int, format string, args ...any) {
		tb.Helper()
		tb.Fatalf("event %d, %s: %s\n%s", i, all[i].name, fmt.Sprintf(format, args...), w.Output())
	}
	kinds, stopped, signed, stops := []string{}, map[int]bool{}, map[int]int{}, 0
	delta, stop, failed := -1, -1, -1
	for i, f := range all {
		if (i == 0) != (f.name == "message_start") && f.name != "error" || stop >= 0 || failed >= 0 || delta >= 0 && f.name != "message_stop" && f.name != "error" {
			wrong(i, "out of order")
		}
		switch f.name {
		case "message_start":
			if f.data.Message.Content == nil || len(f.data.Message.Content) != 0 {
				wrong(i, "content %v", f.data.Message.Content)
			}
			checkUsageMembers(tb, f.data.Message.Usage)
		case "content_block_start":
			if f.data.Index != len(kinds) || stops != len(kinds) {
				wrong(i, "index %d of %d blocks, %d stopped", f.data.Index, len(kinds), stops)
			}
			kinds = append(kinds, f.data.ContentBlock["type"].(string))
		case "content_block_delta":
			if f.data.Index >= len(kinds) || stopped[f.data.Index] || !strings.Contains(fmt.Sprint(deltaTypes[kinds[f.data.Index]]), f.data.Delta["type"].(string)) {
				wrong(i, "%v in blocks %v, stopped %v", f.data.Delta, kinds, stopped)
			}
			switch {
			case signed[f.data.Index] > 0:
				wrong(i, "after the signature")
			case f.data.Delta["type"] == "signature_delta":
				if f.data.Delta["signature"] == "" {
					wrong(i, "an empty signature")
				}
				signed[f.data.Index]++
			}
		case "content_block_stop":
			if f.data.Index != stops || f.data.Index >= len(kinds) {
				wrong(i, "index %d after %d stops of %d blocks", f.data.Index, stops, len(kinds))
			}
			if kinds[stops] == "thinking" && signed[stops] != 1 {
				wrong(i, "%d signatures", signed[stops])
			}
			stopped[stops] = true
			stops++
		case "message_delta":
			if delta = i; stops != len(kinds) || f.data.Delta["stop_reason"] == nil {
				wrong(i, "%d stops of %d blocks, %v", stops, len(kinds), f.data.Delta)
			}
			checkUsageMembers(tb, f.data.Usage)
		case "message_stop":
			stop = i
		case "error":
			failed = i
		default:
			wrong(i, "unknown")
		}
	}
	if w.Complete() != (stop >= 0) || len(all) > 0 && (w.Failed() != nil) != (failed >= 0) {
		tb.Fatalf("complete %t, failed %v; stop %d, error %d", w.Complete(), w.Failed(), stop, failed)
	}
}

func checkUsageMembers(tb testing.TB, usage map[string]any) {
	tb.Helper()
	for _, name := range []string{"input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens"} {
		if n, ok := usage[name].(float64); !ok || n < 0 {
			tb.Fatalf("usage: %s is %v", name, usage[name])
		}
	}
}

package cohere

import (
	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

// Response reads a non-streaming response or an error.
func (p *cohere) Response(a *provider.Answer, status int, body []byte) error {
	if status >= 300 {
		return failure(body, status)
	}
	if translate.Embeds(a) {
		return p.readVectors(a, body)
	}
	r := &p.reader
	r.Reset(body)
	var message, counts json.Value
	var id, reason []byte
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "id":
			id = r.Text()
		case "message":
			message = r.Raw()
		case "finish_reason":
			reason = r.Inside()
		case "usage":
			counts = r.Raw()
		}
	}
	if err := r.End(); err != nil {
		return err
	}
	if message.Kind() == json.String {
		return failure(body, status) // an error with a status of success
	}
	if message.Kind() != json.Object {
		return sdk.Fail(abi.FailBadAnswer, "")
	}
	a.Start(provider.FitName(id), nil, format)
	if err := readMessage(a, message); err != nil {
		return err
	}
	emitUsage(a, counts)
	if err := emitFinish(a, reason, nil); err != nil {
		return err
	}
	a.Done()
	return nil
}

// readMessage reads a message, with its plan before its content, as in a stream.
func readMessage(a *provider.Answer, message json.Value) error {
	var (
		r                          json.Reader
		plan                       []byte
		contents, calls, citations json.Value
	)
	r.Reset(message)
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "tool_plan":
			plan = r.Inside()
		case "content":
			contents = r.Raw()
		case "tool_calls":
			calls = r.Raw()
		case "citations":
			citations = r.Raw()
		}
	}
	if len(plan) > 0 {
		a.Text(0, abi.EncodingEscaped, plan)
	}
	var offsets []int64 // length of the text before each block, in code points
	r.Reset(contents)
	for list := r.Array(); list.Next(); {
		offsets = append(offsets, a.TextLength(0))
		var c content
		c.read(&r)
		if err := c.emitStart(a, int32(len(offsets)-1)); err != nil {
			return err
		}
	}
	key := int32(toolKeys)
	r.Reset(calls)
	for list := r.Array(); list.Next(); key++ {
		var c content
		c.read(&r)
		if err := c.emitCall(a, key); err != nil {
			return err
		}
		a.ToolEnd(0, key)
	}
	if len(offsets) == 0 && key == toolKeys && len(plan) == 0 {
		// An empty response after a tool result is valid.
		a.Text(0, abi.EncodingUTF8, nil)
	}
	r.Reset(citations)
	for list := r.Array(); list.Next(); {
		citation := json.Value(r.Raw())
		emitAnnotations(a, citation, citationOffset(citation, offsets))
	}
	return nil
}

// citationOffset returns the offset of the text that a citation refers to: its block (by default the first) or the
// plan.
func citationOffset(citation json.Value, offsets []int64) int64 {
	n, _ := citation.Get("content_index").Int()
	if n < 0 || n >= int64(len(offsets)) || citation.Get("type").Is("PLAN") {
		return 0
	}
	return offsets[n]
}

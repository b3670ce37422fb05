package bedrock

import (
	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

// Response reads a non-streaming response or an error.
func (p *bedrock) Response(a *provider.Answer, status int, body []byte) error {
	if status >= 300 {
		return translate.AWSFailure(a, status, body)
	}
	if translate.Embeds(a) {
		return p.readVectors(a, body)
	}
	r := &p.reader
	r.Reset(body)
	var blocks json.Value
	var reason []byte
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "output":
			for o := r.Object(); o.Next(); {
				if string(r.Name()) == "message" {
					blocks = json.Value(r.Raw()).Get("content")
				}
			}
		case "stopReason":
			reason = r.Inside()
		case "usage":
			emitUsage(a, r)
		case "serviceTier":
			emitServiceTier(a, r.Raw())
		}
	}
	if err := r.End(); err != nil {
		return err
	}
	if blocks.Kind() != json.Array {
		// The service returns status 200 for an unknown operation, with an error in the body.
		return sdk.Fail(abi.FailBadAnswer, "")
	}
	s := loadState(a)
	startResponse(a, s.family)
	index := int32(0)
	r.Reset(blocks)
	for list := r.Array(); list.Next(); index++ {
		if err := readBlock(a, r, index, s.emulate); err != nil {
			return err
		}
	}
	if err := r.End(); err != nil {
		return err
	}
	if index == 0 {
		// An empty response after a tool result is valid.
		a.Text(0, abi.EncodingUTF8, nil)
	}
	if len(reason) > 0 {
		if err := emitFinish(a, reason); err != nil {
			return err
		}
	}
	a.Done()
	return nil
}

// readBlock reads a block of a non-streaming response: an object with one member, whose name is the kind of block.
func readBlock(a *provider.Answer, r *json.Reader, index int32, emulated bool) error {
	for o := r.Object(); o.Next(); {
		switch name := r.Name(); string(name) {
		case "text":
			if text := r.Inside(); len(text) > 0 {
				a.Text(0, abi.EncodingEscaped, text)
			}
		case "toolUse":
			c := readCall(r)
			if c.input.Kind() != json.Object {
				c.input = json.Value("{}")
			}
			if emulated && string(c.kind) != "server_tool_use" {
				a.Text(0, abi.EncodingUTF8, translate.AppendCompact(nil, c.input))
				continue
			}
			if err := c.emitStart(a, index); err != nil {
				return err
			}
			a.ToolArguments(0, index, abi.EncodingUTF8, translate.AppendCompact(nil, c.input))
			a.ToolEnd(0, index)
		case "reasoningContent":
			if err := readReasoning(a, r, index); err != nil {
				return err
			}
		case "citationsContent":
			readCited(a, r)
		default:
			a.Unknown(name)
		}
	}
	return nil
}

func readReasoning(a *provider.Answer, r *json.Reader, index int32) error {
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "reasoningText":
			var text, signature []byte
			for o := r.Object(); o.Next(); {
				switch string(r.Name()) {
				case "text":
					text = r.Inside()
				case "signature":
					signature = r.Inside()
				}
			}
			emitReasoning(a, index, text, signature)
		case "redactedContent":
			if inside := r.Inside(); len(inside) > 0 {
				if err := emitRedacted(a, index, inside, true); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// readCited reads text with citations. The citations are dropped: they refer to documents with citations enabled, which
// the plugin never sends.
func readCited(a *provider.Answer, r *json.Reader) {
	for o := r.Object(); o.Next(); {
		if string(r.Name()) != "content" {
			continue
		}
		for list := r.Array(); list.Next(); {
			for o := r.Object(); o.Next(); {
				if string(r.Name()) != "text" {
					continue
				}
				if text := r.Inside(); len(text) > 0 {
					a.Text(0, abi.EncodingEscaped, text)
				}
			}
		}
	}
}

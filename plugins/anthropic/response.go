package main

import (
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

// Response reads a whole answer, or an error. It goes through the same readers as the events of a stream.
func (p *anthropic) Response(a *provider.Answer, status int, body []byte) error {
	if status >= 300 {
		return failure(json.Value(body).Get("error"), status)
	}
	r := &p.reader
	r.Reset(body)
	var blocks, failed json.Value
	var stopReason []byte
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "content":
			blocks = r.Raw()
		case "error":
			failed = r.Raw()
		case "stop_reason":
			stopReason = r.Inside()
		}
	}
	if err := r.End(); err != nil {
		return err
	}
	if failed.Kind() == json.Object {
		return failure(failed, status)
	}
	if blocks.Kind() != json.Array {
		return sdk.Fail(abi.FailBadAnswer, "")
	}
	start(a, body)
	r.Reset(blocks)
	key := int32(0)
	for list := r.Array(); list.Next(); key++ {
		var b content
		b.read(r.Raw())
		if err := b.all(a, key); err != nil {
			return err
		}
	}
	if err := r.End(); err != nil {
		return err
	}
	if key == 0 {
		// Nothing to say after a tool's result is an answer, too.
		a.Text(0, abi.EncodingUTF8, nil)
	}
	if len(stopReason) > 0 {
		finish(a, stopReason)
	}
	a.Done()
	return nil
}

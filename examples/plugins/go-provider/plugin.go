// Command go-provider is a provider plugin for a simple API: POST /say accepts a chat completions request with "turns"
// instead of "messages", and streams events: {"text":"…"} for each piece of text, and {"tokens":…} at the end.
package main

import (
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

func init() { provider.Register[echo]() }

func main() {}

// echo translates requests and responses. It needs no state.
type echo struct{}

// Request builds the provider's request from the client's.
func (*echo) Request(r *provider.Request) error {
	if r.Has(sdk.FlagTools) {
		return sdk.Refuse("tools", "The upstream has no tools.")
	}
	r.SetPath("/say")
	r.Expect(abi.FramingSSE, abi.DialectTranslated, nil)
	r.SetText("/model", r.Target)
	r.Rename("/messages", "turns")
	return nil
}

// Event reports the content of an event in the provider's stream.
func (*echo) Event(a *provider.Answer, e *provider.Event) error {
	var in json.Reader
	in.Reset(e.Data)
	for o := in.Object(); o.Next(); {
		switch string(in.Name()) {
		case "text":
			a.Text(0, abi.EncodingEscaped, in.Inside())
		case "tokens":
			n, _ := in.Int()
			a.Usage(abi.UsageCompletion, n)
			a.Finish(0, abi.FinishStop, nil)
			a.Done()
		}
	}
	return in.End()
}

// Response interprets a response without a stream, which is always an error in this API.
func (*echo) Response(_ *provider.Answer, status int, _ []byte) error {
	if status == 429 {
		return sdk.Fail(abi.FailRateLimit, "")
	}
	return sdk.Fail(abi.FailServer, "")
}

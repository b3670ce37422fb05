// Command go-provider is a provider plugin for an upstream with an API of its own: POST /say takes a chat completions request
// with "turns" in place of "messages", and responds with events: {"text":"…"} for each piece, {"tokens":…} at the end.
package main

import (
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

func init() { provider.Register[echo]() }

func main() {}

type echo struct{}

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

func (*echo) Response(_ *provider.Answer, status int, _ []byte) error {
	if status == 429 {
		return sdk.Fail(abi.FailRateLimit, "")
	}
	return sdk.Fail(abi.FailServer, "")
}

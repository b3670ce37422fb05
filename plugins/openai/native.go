package openai

import (
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

// passResponses sends the request of a Responses client as it is, but for the model.
func passResponses(r *provider.Request, o *options) error {
	if o.stateless {
		if err := refuseState(r); err != nil {
			return err
		}
	}
	r.SetText("/model", r.Target)
	expectResponses(r, o)
	return nil
}

// expectResponses sets where a Responses request goes, and what comes back.
func expectResponses(r *provider.Request, o *options) {
	r.SetPath(o.expandPath(o.responsesPath, "/responses", r.Target))
	framing := abi.FramingJSON
	if r.Stream {
		framing = abi.FramingSSE
	}
	r.Expect(framing, abi.DialectResponses, nil)
}

// refuseState refuses what an upstream without a memory cannot do: another target may have one. store, which is true by default, is
// not worth a refusal.
func refuseState(r *provider.Request) error {
	for _, member := range [...]string{"previous_response_id", "conversation", "background"} {
		value := r.Get("/" + member)
		if on, ok := value.Bool(); value.Kind() == json.Null || !value.Exists() || ok && !on {
			continue
		}
		return sdk.Refuse(member, "This provider does not keep responses.")
	}
	if r.Replace("/store", "true", "false") {
		r.Warn(abi.WarnChanged, "store")
	}
	return nil
}

package openai

import (
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

// passResponses sends the request of a Responses client with only the model changed.
func passResponses(r *provider.Request, o *options) error {
	if o.stateless {
		if err := rejectStoredState(r); err != nil {
			return err
		}
	}
	r.SetText("/model", r.Target)
	expectResponses(r, o)
	return nil
}

// expectResponses sets the path of a Responses request and the format of its response.
func expectResponses(r *provider.Request, o *options) {
	r.SetPath(o.expandPath(o.responsesPath, "/responses", r.Target))
	framing := abi.FramingJSON
	if r.Stream {
		framing = abi.FramingSSE
	}
	r.Expect(framing, abi.DialectResponses, nil)
}

// rejectStoredState rejects a request that refers to stored responses or runs in the background, for an upstream that
// stores no responses; another target may. store is true by default, so it is set to false rather than rejected.
func rejectStoredState(r *provider.Request) error {
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

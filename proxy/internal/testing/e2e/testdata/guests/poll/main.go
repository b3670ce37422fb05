// Command poll is a provider for an API in which a client creates a prediction and then asks for it until it is complete,
// as with Replicate's: POST /v1/predictions, GET /v1/predictions/ID and POST /v1/predictions/ID/cancel. The output is an
// array of pieces that grows.
package main

import (
	"strconv"

	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

func init() { provider.Register[poll]() }

func main() {}

type poll struct{}

// pause is the time between two requests, in milliseconds.
const pause = 100

// Request creates the prediction.
func (*poll) Request(r *provider.Request) error {
	r.SetPath("/v1/predictions")
	w := r.JSON()
	w.Object()
	w.Name("model")
	w.Text(r.Target)
	w.Name("input")
	w.Object()
	w.Name("messages")
	w.Raw(json.Value(r.Body()).Get("messages"))
	w.EndObject()
	w.EndObject()
	return nil
}

// Response reads the prediction. The state is the number of pieces that have been reported and the prediction's ID.
func (p *poll) Response(a *provider.Answer, status int, body []byte) error {
	doc := json.Value(body)
	reported, id := readState(a.State())
	switch {
	case status >= 500 && id != "":
		return a.NextRequest(abi.MethodGet, "/v1/predictions/"+id, nil, pause)
	case status >= 300:
		return sdk.Fail(abi.FailServer, "")
	case id == "":
		id = string(doc.Get("id").Text())
		if err := a.CancelRequest(abi.MethodPost, "/v1/predictions/"+id+"/cancel", nil); err != nil {
			return err
		}
	}
	var r json.Reader
	r.Reset(doc.Get("output"))
	pieces := 0
	for list := r.Array(); list.Next(); pieces++ {
		if text := r.Inside(); pieces >= reported {
			a.Text(0, abi.EncodingEscaped, text)
		}
	}
	switch string(doc.Get("status").Text()) {
	case "succeeded":
		for name, kind := range map[string]abi.UsageKind{"input_token_count": abi.UsagePrompt, "output_token_count": abi.UsageCompletion} {
			if n, ok := doc.Get("metrics").Get(name).Int(); ok {
				a.Usage(kind, n)
			}
		}
		a.Finish(0, abi.FinishStop, nil)
		a.Done()
		return nil
	case "failed", "canceled":
		return sdk.Fail(abi.FailServer, string(doc.Get("error").Text()))
	}
	a.SetState([]byte(strconv.Itoa(max(pieces, reported)) + " " + id))
	return a.NextRequest(abi.MethodGet, "/v1/predictions/"+id, nil, pause)
}

func readState(state []byte) (reported int, id string) {
	for n, c := range state {
		if c == ' ' {
			return reported, string(state[n+1:])
		}
		reported = 10*reported + int(c-'0')
	}
	return 0, ""
}

// Event is for streams, which this API lacks.
func (*poll) Event(*provider.Answer, *provider.Event) error { return sdk.Fail(abi.FailBadAnswer, "") }

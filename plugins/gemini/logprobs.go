package gemini

import (
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

// emitLogprobs emits the log probabilities of a text. The provider sends the chosen tokens and the most likely ones in
// two arrays of the same length.
func emitLogprobs(a *provider.Answer, choice int32, v json.Value) {
	var chosen, top json.Reader
	chosen.Reset(v.Get("chosenCandidates"))
	top.Reset(v.Get("topCandidates"))
	var w json.Writer
	w.Object()
	w.Name("content")
	w.Array()
	tops := top.Array()
	some := false
	for l := chosen.Array(); l.Next(); {
		some = true
		w.Object()
		writeToken(&w, &chosen)
		w.Name("top_logprobs")
		w.Array()
		if tops.Next() {
			for o := top.Object(); o.Next(); {
				if string(top.Name()) != "candidates" {
					continue
				}
				for l := top.Array(); l.Next(); {
					w.Object()
					writeToken(&w, &top)
					w.EndObject()
				}
			}
		}
		w.EndArray()
		w.EndObject()
	}
	w.EndArray()
	w.Name("refusal")
	w.Null()
	w.EndObject()
	if some {
		a.Extra(abi.ScopeChoice, choice, 0, "logprobs", w.Buf)
	}
}

// writeToken writes a token, its log probability and its bytes. The provider omits members with the value zero.
func writeToken(w *json.Writer, r *json.Reader) {
	var token []byte
	probability := json.Value("0")
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "token":
			token = r.Inside()
		case "logProbability":
			if r.Kind() == json.Number {
				probability = r.Raw()
			}
		}
	}
	w.Name("token")
	w.Inside(token)
	w.Name("logprob")
	w.Raw(probability)
	w.Name("bytes")
	w.Array()
	for _, c := range json.AppendText(nil, token) {
		w.Int(int64(c))
	}
	w.EndArray()
}

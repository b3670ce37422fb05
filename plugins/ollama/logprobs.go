package ollama

import (
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

// emitLogprobs emits the log probabilities of a line's tokens. They have the format of the OpenAI API, except that some
// members are missing that are always present in the OpenAI API.
func emitLogprobs(a *provider.Answer, tokens json.Value) {
	var (
		r json.Reader
		w json.Writer
	)
	w.Object()
	w.Name("content")
	w.Array()
	r.Reset(tokens)
	found := false
	for list := r.Array(); list.Next(); {
		if writeToken(&w, &r, true) {
			found = true
		}
	}
	w.EndArray()
	w.Name("refusal")
	w.Null()
	w.EndObject()
	if found && !a.Extra(abi.ScopeChoice, 0, 0, "logprobs", w.Buf) {
		a.Unknown([]byte("logprobs"))
	}
}

// writeToken writes the current token, with its alternatives unless it is one itself. It writes nothing and returns
// false if there is no token with a probability.
func writeToken(w *json.Writer, r *json.Reader, alternatives bool) bool {
	var token []byte
	var probability, bytes, top json.Value
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "token":
			token = r.Inside()
		case "logprob":
			probability = r.Raw()
		case "bytes":
			bytes = r.Raw()
		case "top_logprobs":
			top = r.Raw()
		}
	}
	if token == nil || probability.Kind() != json.Number {
		return false
	}
	w.Object()
	w.Name("token")
	w.Inside(token)
	w.Name("logprob")
	w.Raw(probability)
	w.Name("bytes")
	if bytes.Kind() == json.Array {
		w.Raw(bytes)
	} else {
		w.Null()
	}
	if alternatives {
		w.Name("top_logprobs")
		w.Array()
		var inner json.Reader
		inner.Reset(top)
		for list := inner.Array(); list.Next(); {
			writeToken(w, &inner, false)
		}
		w.EndArray()
	}
	w.EndObject()
	return true
}

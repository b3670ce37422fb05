package responses

import (
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// WantsSeals reports whether reasoning items must have encrypted_content.
func (r *Request) WantsSeals() bool { return r.m.wantsSeals }

// WantsSummary reports whether reasoning items must show their text.
func (r *Request) WantsSummary() bool { return r.m.summary.Exists() }

// WantsLogprobs reports whether texts must have log probabilities.
func (r *Request) WantsLogprobs() bool { return r.m.wantsLogprobs }

// Stream reports whether the response is a stream.
func (r *Request) Stream() bool { return r.facts.Stream }

// AppendInstructions appends the instructions for the response object, a JSON value.
func (r *Request) AppendInstructions(dst []byte) []byte {
	return appendOr(dst, r.m.instructions, "null")
}

// AppendTools appends the tools for the response object, a JSON array.
func (r *Request) AppendTools(dst []byte) []byte { return appendOr(dst, r.m.tools, "[]") }

// AppendEcho appends the other members of the request that a response object repeats, with their defaults: members of a
// JSON object, separated by commas. store is the value of the response's member store.
func (r *Request) AppendEcho(dst []byte, store bool) []byte {
	m := &r.m
	dst = append(dst, `"background":false,"max_output_tokens":`...)
	dst = appendOr(dst, m.maxOutputTokens, "null")
	dst = appendOr(append(dst, `,"max_tool_calls":`...), m.maxToolCalls, "null")
	dst = appendOr(append(dst, `,"metadata":`...), m.metadata, "{}")
	dst = appendOr(append(dst, `,"parallel_tool_calls":`...), m.parallel, "true")
	dst = appendOr(append(dst, `,"previous_response_id":`...), m.previous, "null")
	dst = appendOr(append(dst, `,"prompt_cache_key":`...), m.cacheKey, "null")
	dst = appendOr(append(dst, `,"reasoning":{"effort":`...), m.effort, "null")
	dst = appendOr(append(dst, `,"summary":`...), m.summary, "null")
	dst = appendOr(append(dst, `},"safety_identifier":`...), m.safety, "null")
	dst = appendOr(append(dst, `,"service_tier":`...), m.serviceTier, `"default"`)
	if store {
		dst = append(dst, `,"store":true`...)
	} else {
		dst = append(dst, `,"store":false`...)
	}
	dst = appendOr(append(dst, `,"temperature":`...), m.temperature, "1")
	dst = appendOr(append(dst, `,"text":{"format":`...), m.format, `{"type":"text"}`)
	dst = appendOr(append(dst, `,"verbosity":`...), m.verbosity, `"medium"`)
	dst = appendOr(append(dst, `},"tool_choice":`...), m.toolChoice, `"auto"`)
	dst = appendOr(append(dst, `,"top_logprobs":`...), m.topLogprobs, "0")
	dst = appendOr(append(dst, `,"top_p":`...), m.topP, "1")
	dst = appendOr(append(dst, `,"truncation":`...), m.truncation, `"disabled"`)
	return appendOr(append(dst, `,"user":`...), m.user, "null")
}

// appendOr appends a value without white space, which could contain line breaks, or otherwise if the value is absent.
func appendOr(dst []byte, v jsondoc.Value, otherwise string) []byte {
	if !v.Exists() {
		return append(dst, otherwise...)
	}
	return v.AppendCompact(dst)
}

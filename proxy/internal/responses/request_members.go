package responses

import (
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// members are the members of a request that are used after parsing. A member that is null counts as absent.
type members struct {
	model, input, instructions, stream, streamOptions                                     jsondoc.Value
	maxOutputTokens, temperature, topP, topLogprobs                                       jsondoc.Value
	reasoning, effort, summary                                                            jsondoc.Value
	text, format, verbosity                                                               jsondoc.Value
	tools, toolChoice, parallel                                                           jsondoc.Value
	store, previous, conversation, prompt, background                                     jsondoc.Value
	truncation, metadata, user, safety, serviceTier, cacheKey, maxToolCalls, cacheOptions jsondoc.Value
	wantsSeals, wantsLogprobs                                                             bool
}

// chatMembers are members of the chat completions API, with a hint at their equivalents in this API. They are rejected
// because a client that confuses the APIs would otherwise not get what it asks for.
var chatMembers = map[string]string{
	"messages": "use 'input'", "max_tokens": "use 'max_output_tokens'", "max_completion_tokens": "use 'max_output_tokens'",
	"response_format": "use 'text.format'", "reasoning_effort": "use 'reasoning.effort'", "verbosity": "use 'text.verbosity'",
	"functions": "use 'tools'", "function_call": "use 'tool_choice'",
	"n": "a response has one choice", "stop": "there are no stop sequences", "seed": "there is no seed",
	"logprobs":          "use 'top_logprobs' and 'include'",
	"presence_penalty":  "there are no penalties",
	"frequency_penalty": "there are no penalties",
	"logit_bias":        "there is no bias",
}

// readRequest checks the request's members. Members that do not depend on others are checked in the order of the
// document.
func (r *Request) readRequest(root jsondoc.Value) *apierror.Error {
	for v := root.First(); v.Exists(); v = v.Next() {
		name := r.keyword(v.Name())
		if hint, ok := chatMembers[string(name)]; ok {
			return apierror.Invalid(clientapi.CodeUnknownParameter, string(name), "Unknown parameter: '%s'. In the Responses API, %s.", name, hint)
		}
		if v.Kind() == jsondoc.Null {
			continue
		}
		if e := r.readMember(string(name), v); e != nil {
			return e
		}
	}
	if e := r.readModel(r.m.model, root); e != nil {
		return e
	}
	if e := r.readTools(r.m.tools); e != nil {
		return e
	}
	if e := r.readInput(root); e != nil {
		return e
	}
	if len(r.tools) > 0 && r.m.parallel.Exists() {
		r.facts.Flags |= clientapi.FlagParallelTools
	}
	return nil
}

// readMember checks one member of the request and records it.
func (r *Request) readMember(name string, v jsondoc.Value) (e *apierror.Error) {
	m, f := &r.m, &r.facts
	switch name {
	case "model":
		m.model = v
	case "input":
		m.input = v
	case "instructions":
		m.instructions = v
		f.TextBytes += len(v.Inside())
		return clientapi.CheckString(v)
	case "stream":
		m.stream = v
		f.Stream, e = clientapi.CheckBool(v)
		f.IncludeUsage = f.Stream // a response always ends with its usage
		return e
	case "stream_options":
		m.streamOptions = v
		if e := clientapi.CheckObject(v); e != nil {
			return e
		}
		_, e = clientapi.CheckBool(v.Get("include_obfuscation"))
		return e
	case "max_output_tokens":
		m.maxOutputTokens = v
		f.MaxTokens, e = clientapi.CheckInteger(v, 1, clientapi.MaxTokensCeiling)
		return e
	case "temperature":
		m.temperature = v
		return clientapi.CheckDecimal(v, 0, 2)
	case "top_p":
		m.topP = v
		return clientapi.CheckDecimal(v, 0, 1)
	case "top_logprobs":
		m.topLogprobs = v
		_, e = clientapi.CheckInteger(v, 0, 20)
		return e
	case "include":
		return r.readInclude(v)
	case "reasoning":
		return r.readReasoning(v)
	case "text":
		return r.readText(v)
	case "tools":
		m.tools = v
		f.TextBytes += len(v.Raw())
		return clientapi.CheckArray(v)
	case "tool_choice":
		m.toolChoice = v
		return checkToolChoice(v)
	case "parallel_tool_calls":
		m.parallel = v
		_, e = clientapi.CheckBool(v)
		return e
	case "max_tool_calls":
		m.maxToolCalls = v
		_, e = clientapi.CheckInteger(v, 1, clientapi.MaxTokensCeiling)
		return e
	case "store":
		m.store = v
		_, e = clientapi.CheckBool(v)
		return e
	case "background":
		m.background = v
		_, e = clientapi.CheckBool(v)
		return e
	case "previous_response_id":
		m.previous = v
		return clientapi.CheckString(v)
	case "conversation":
		m.conversation = v
		if v.Kind() != jsondoc.String && v.Kind() != jsondoc.Object {
			return clientapi.WrongType(v, "a string or an object")
		}
	case "prompt":
		m.prompt = v
		return clientapi.CheckObject(v)
	case "truncation":
		m.truncation = v
		return clientapi.CheckString(v)
	case "metadata":
		m.metadata = v
		return readMetadata(v)
	case "user":
		m.user = v
		return clientapi.CheckString(v)
	case "safety_identifier":
		m.safety = v
		return clientapi.CheckString(v)
	case "service_tier":
		m.serviceTier = v
		return clientapi.CheckString(v)
	case "prompt_cache_key":
		m.cacheKey = v
		return clientapi.CheckString(v)
	case "prompt_cache_retention":
		return clientapi.CheckString(v)
	case "prompt_cache_options":
		m.cacheOptions = v
		return clientapi.CheckObject(v)
	}
	return nil
}

func (r *Request) readInclude(v jsondoc.Value) *apierror.Error {
	if e := clientapi.CheckArray(v); e != nil {
		return e
	}
	for c := v.First(); c.Exists(); c = c.Next() {
		if c.Kind() != jsondoc.String {
			return clientapi.WrongType(c, "a string")
		}
		switch string(r.keyword(c)) {
		case "reasoning.encrypted_content":
			r.m.wantsSeals = true
		case "message.output_text.logprobs":
			r.m.wantsLogprobs = true
			r.facts.Flags |= clientapi.FlagLogprobs
		}
	}
	return nil
}

// readReasoning checks the object reasoning of a request or of a configuration_update item.
func (r *Request) readReasoning(v jsondoc.Value) *apierror.Error {
	if e := clientapi.CheckObject(v); e != nil {
		return e
	}
	r.m.reasoning = v
	for c := v.First(); c.Exists(); c = c.Next() {
		if c.Kind() == jsondoc.Null {
			continue
		}
		switch string(r.keyword(c.Name())) {
		case "effort":
			r.m.effort = c
			r.facts.Flags |= clientapi.FlagReasoning
		case "summary":
			r.m.summary = c
		case "generate_summary":
			if !r.m.summary.Exists() {
				r.m.summary = c
			}
		default:
			continue
		}
		if e := clientapi.CheckString(c); e != nil {
			return e
		}
	}
	return nil
}

// readText checks the object text.
func (r *Request) readText(v jsondoc.Value) *apierror.Error {
	if e := clientapi.CheckObject(v); e != nil {
		return e
	}
	r.m.text = v
	if verbosity := v.Get("verbosity"); clientapi.Given(verbosity) {
		r.m.verbosity = verbosity
		if e := clientapi.CheckString(verbosity); e != nil {
			return e
		}
	}
	format := v.Get("format")
	if !clientapi.Given(format) {
		return nil
	}
	if e := clientapi.CheckObject(format); e != nil {
		return e
	}
	typ := format.Get("type")
	if e := clientapi.NeedString(typ, format, "type"); e != nil {
		return e
	}
	r.m.format = format
	if typ.Is("text") {
		return nil
	}
	r.facts.Flags |= clientapi.FlagResponseFormat
	if !typ.Is("json_schema") {
		return nil
	}
	if e := clientapi.NeedName(format.Get("name"), format, "name"); e != nil {
		return e
	}
	if e := clientapi.NeedObject(format.Get("schema"), format, "schema"); e != nil {
		return e
	}
	if e := clientapi.CheckString(format.Get("description")); e != nil {
		return e
	}
	r.facts.TextBytes += len(format.Get("schema").Raw())
	_, e := clientapi.CheckBool(format.Get("strict"))
	return e
}

func readMetadata(v jsondoc.Value) *apierror.Error {
	if e := clientapi.CheckObject(v); e != nil {
		return e
	}
	const pairs = 16
	if v.Len() > pairs {
		return clientapi.TooMany(v, pairs)
	}
	return clientapi.CheckStrings(v)
}

// checkToolChoice checks the type of tool_choice. AppendChat or the provider checks that it matches the tools.
func checkToolChoice(v jsondoc.Value) *apierror.Error {
	switch v.Kind() {
	case jsondoc.String:
		return nil
	case jsondoc.Object:
		return clientapi.NeedString(v.Get("type"), v, "type")
	}
	return clientapi.WrongType(v, "a string or an object")
}

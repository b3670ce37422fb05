package openai

import (
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// topLevel holds the top-level members that can only be checked when all of them are known.
type topLevel struct {
	model, messages, stream, streamOptions jsondoc.Value
	maxTokens, maxCompletionTokens         jsondoc.Value
	tools, toolChoice, parallelToolCalls   jsondoc.Value
	functions, functionCall                jsondoc.Value
	logprobs, topLogprobs                  jsondoc.Value
	thinking, effort, reasoning            jsondoc.Value
}

// readRequest reads the members of a request. It first checks those that do not depend on others, in document order.
func (r *Request) readRequest(root jsondoc.Value, l *clientapi.Limits) *apierror.Error {
	var t topLevel
	for v := root.First(); v.Exists(); v = v.Next() {
		if e := r.readMember(v, &t, l); e != nil {
			return e
		}
	}
	if e := r.readModel(t.model, root); e != nil {
		return e
	}
	if e := r.readStream(&t); e != nil {
		return e
	}
	if e := r.readMaxTokens(&t); e != nil {
		return e
	}
	if e := r.readTools(&t, l); e != nil {
		return e
	}
	if e := r.readLogprobs(&t); e != nil {
		return e
	}
	r.moveEffort(&t, root)
	return r.readMessages(t.messages, root, l)
}

// readMember checks a member, or stores it in t if it depends on others.
func (r *Request) readMember(v jsondoc.Value, t *topLevel, l *clientapi.Limits) (e *apierror.Error) {
	switch string(r.keyword(v.Name())) {
	case "model":
		t.model = v
	case "messages":
		t.messages = v
	case "stream":
		t.stream = v
	case "stream_options":
		t.streamOptions = v
	case "max_tokens":
		t.maxTokens = v
	case "max_completion_tokens":
		t.maxCompletionTokens = v
	case "tools":
		t.tools = v
	case "tool_choice":
		t.toolChoice = v
	case "parallel_tool_calls":
		t.parallelToolCalls = v
		_, e = clientapi.CheckBool(v)
		return e
	case "functions":
		t.functions = v
	case "function_call":
		t.functionCall = v
	case "logprobs":
		t.logprobs = v
	case "top_logprobs":
		t.topLogprobs = v

	case "temperature":
		return clientapi.CheckDecimal(v, 0, 2)
	case "top_p":
		return clientapi.CheckDecimal(v, 0, 1)
	case "presence_penalty", "frequency_penalty":
		return clientapi.CheckDecimal(v, -2, 2)
	case "n":
		var n int64
		if n, e = clientapi.CheckInteger(v, 1, 128); n > 0 {
			r.N = int(n)
		}
		return e
	case "seed":
		_, e = clientapi.CheckInteger(v, -1<<63, 1<<63-1)
		return e
	case "thinking":
		t.thinking = v
		return r.readThinking(v)
	case "reasoning_effort":
		t.effort = v
		return r.readEffort(v)
	case "reasoning":
		t.reasoning = v
	case "response_format":
		return r.readFormat(v)
	case "stop":
		return r.readStop(v, l)
	case "logit_bias":
		return r.readBias(v, l)
	case "metadata":
		return r.readMetadata(v)
	case "modalities":
		return r.readModalities(v)
	case "audio":
		if clientapi.Given(v) {
			r.Flags |= clientapi.FlagAudio
		}
		return clientapi.CheckObject(v)
	case "store":
		_, e = clientapi.CheckBool(v)
		return e
	case "cache_control":
		return r.readCacheControl(v)
	case "prediction", "web_search_options":
		return clientapi.CheckObject(v)
	case "user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "service_tier", "verbosity":
		return clientapi.CheckString(v)
	}
	return nil
}

// readModel copies the model's name. It only rejects strings that cannot be names; the model is looked up later.
func (r *Request) readModel(v, root jsondoc.Value) *apierror.Error {
	if e := clientapi.NeedString(v, root, "model"); e != nil {
		return e
	}
	if len(v.Inside()) == 0 {
		return apierror.Invalid(clientapi.CodeEmptyString, "model", "'model' must not be empty.")
	}
	r.Model = v.Text()
	if strings.IndexByte(r.Model, 0) >= 0 {
		return apierror.Invalid(clientapi.CodeInvalidValue, "model", "'model' must not contain the character U+0000.")
	}
	return nil
}

func (r *Request) readStream(t *topLevel) (e *apierror.Error) {
	if r.Stream, e = clientapi.CheckBool(t.stream); e != nil {
		return e
	}
	o := t.streamOptions
	if !clientapi.Given(o) {
		return nil
	}
	if e := clientapi.CheckObject(o); e != nil {
		return e
	}
	if !r.Stream {
		return apierror.Invalid(clientapi.CodeInvalidValue, "stream_options", "'stream_options' is only allowed when 'stream' is true.")
	}
	for v := o.First(); v.Exists(); v = v.Next() {
		switch string(r.keyword(v.Name())) {
		case "include_usage":
			r.IncludeUsage, e = clientapi.CheckBool(v)
		case "include_obfuscation":
			_, e = clientapi.CheckBool(v)
		}
		if e != nil {
			return e
		}
	}
	return nil
}

// readMaxTokens reads both names of the limit. If both are given, the newer one wins. -1 means no limit and counts as
// absent: some providers accept it, and the plugins of others leave it out.
func (r *Request) readMaxTokens(t *topLevel) *apierror.Error {
	for _, v := range [...]jsondoc.Value{t.maxTokens, t.maxCompletionTokens} {
		if n, ok := v.Int(); ok && n == -1 {
			continue
		}
		n, e := clientapi.CheckInteger(v, 1, clientapi.MaxTokensCeiling)
		if e != nil {
			return e
		}
		if n > 0 {
			r.MaxTokens, r.maxTokens = n, v
		}
	}
	return nil
}

// readThinking reads thinking: {type, budget_tokens}. The budget is optional, because many clients leave it to the
// provider. It is ignored if the type is "disabled".
func (r *Request) readThinking(v jsondoc.Value) (e *apierror.Error) {
	if !clientapi.Given(v) {
		return nil
	}
	if e := clientapi.CheckObject(v); e != nil {
		return e
	}
	typ, budget := v.Get("type"), v.Get("budget_tokens")
	if e := clientapi.NeedString(typ, v, "type"); e != nil {
		return e
	}
	switch string(r.keyword(typ)) {
	case "enabled":
		r.Thinking.Mode = clientapi.ThinkingEnabled
	case "disabled":
		r.Thinking.Mode = clientapi.ThinkingDisabled
		return nil
	case "adaptive":
		r.Thinking.Mode = clientapi.ThinkingAdaptive
	default:
		return clientapi.NotOneOf(typ, "enabled", "disabled", "adaptive")
	}
	r.Flags |= clientapi.FlagThinking
	r.budget = budget
	r.Thinking.BudgetTokens, e = clientapi.CheckInteger(budget, 1, clientapi.MaxTokensCeiling)
	return e
}

// readEffort reads reasoning_effort. "default" requests nothing: some providers accept it, and the plugins of others
// leave it out.
func (r *Request) readEffort(v jsondoc.Value) *apierror.Error {
	if !clientapi.Given(v) {
		return nil
	}
	if e := clientapi.CheckString(v); e != nil {
		return e
	}
	switch string(r.keyword(v)) {
	case "none", "minimal", "low", "medium", "high", "xhigh", "max":
		r.Flags |= clientapi.FlagReasoning
		return nil
	case "default":
		return nil
	}
	return clientapi.NotOneOf(v, "none", "minimal", "low", "medium", "high", "xhigh", "max")
}

// readFormat reads response_format. Types that the OpenAI API does not have are left to the plugin, because some
// providers support others, for example grammars and regular expressions.
func (r *Request) readFormat(v jsondoc.Value) *apierror.Error {
	if !clientapi.Given(v) {
		return nil
	}
	if e := clientapi.CheckObject(v); e != nil {
		return e
	}
	typ := v.Get("type")
	if e := clientapi.NeedString(typ, v, "type"); e != nil {
		return e
	}
	switch string(r.keyword(typ)) {
	case "text":
		return nil
	case "json_schema":
		r.Flags |= clientapi.FlagResponseFormat
	default:
		r.Flags |= clientapi.FlagResponseFormat
		return nil
	}
	schema := v.Get("json_schema")
	if e := clientapi.NeedObject(schema, v, "json_schema"); e != nil {
		return e
	}
	if e := clientapi.NeedName(schema.Get("name"), schema, "name"); e != nil {
		return e
	}
	if e := clientapi.CheckString(schema.Get("description")); e != nil {
		return e
	}
	if e := clientapi.CheckObject(schema.Get("schema")); e != nil {
		return e
	}
	r.TextBytes += len(schema.Get("schema").Raw())
	_, e := clientapi.CheckBool(schema.Get("strict"))
	return e
}

func (r *Request) readStop(v jsondoc.Value, l *clientapi.Limits) *apierror.Error {
	switch v.Kind() {
	case jsondoc.Null, jsondoc.String:
		return nil
	case jsondoc.Array:
	default:
		return clientapi.WrongType(v, "a string or an array of strings")
	}
	if v.Len() > l.Stop {
		return clientapi.TooMany(v, l.Stop)
	}
	return clientapi.CheckStrings(v)
}

func (r *Request) readBias(v jsondoc.Value, l *clientapi.Limits) *apierror.Error {
	if e := clientapi.CheckObject(v); e != nil {
		return e
	}
	if v.Len() > l.LogitBias {
		return clientapi.TooMany(v, l.LogitBias)
	}
	for c := v.First(); c.Exists(); c = c.Next() {
		if c.Kind() != jsondoc.Number {
			return clientapi.WrongType(c, "a number")
		}
		if e := clientapi.CheckDecimal(c, -100, 100); e != nil {
			return e
		}
	}
	return nil
}

func (r *Request) readMetadata(v jsondoc.Value) *apierror.Error {
	if e := clientapi.CheckObject(v); e != nil {
		return e
	}
	const pairs = 16
	if v.Len() > pairs {
		return clientapi.TooMany(v, pairs)
	}
	return clientapi.CheckStrings(v)
}

func (r *Request) readModalities(v jsondoc.Value) *apierror.Error {
	if e := clientapi.CheckArray(v); e != nil {
		return e
	}
	if e := clientapi.CheckStrings(v); e != nil {
		return e
	}
	for c := v.First(); c.Exists(); c = c.Next() {
		if c.Is("audio") {
			r.Flags |= clientapi.FlagAudio
		}
	}
	return nil
}

func (r *Request) readLogprobs(t *topLevel) *apierror.Error {
	on, e := clientapi.CheckBool(t.logprobs)
	if e != nil {
		return e
	}
	if on {
		r.Flags |= clientapi.FlagLogprobs
	}
	if _, e := clientapi.CheckInteger(t.topLogprobs, 0, 20); e != nil {
		return e
	}
	if clientapi.Given(t.topLogprobs) && !on {
		return apierror.Invalid(clientapi.CodeInvalidValue, "top_logprobs", "'top_logprobs' is only allowed when 'logprobs' is true.")
	}
	return nil
}

package gemini

import (
	"bytes"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// member returns the field for a member of the request, nil if the gateway does not know the member.
func (m *members) member(name []byte) *jsondoc.Value {
	switch string(name) {
	case "contents":
		return &m.contents
	case "systemInstruction":
		return &m.system
	case "tools":
		return &m.tools
	case "toolConfig":
		return &m.toolConfig
	case "generationConfig":
		return &m.config
	case "safetySettings":
		return &m.safety
	case "cachedContent":
		return &m.cached
	case "labels":
		return &m.labels
	}
	return nil
}

// readRequest finds the members of the request root and checks them.
func (r *Request) readRequest(root jsondoc.Value) *apierror.Error {
	m := &r.m
	for v := root.First(); v.Exists(); v = v.Next() {
		if at := m.member(r.fieldName(v)); at != nil {
			if e := set(at, v); e != nil {
				return e
			}
		}
	}
	if !m.contents.Exists() {
		return clientapi.Missing(root, "contents")
	}
	if e := r.readConfig(); e != nil {
		return e
	}
	if e := r.readSystem(); e != nil {
		return e
	}
	if e := r.readContents(); e != nil {
		return e
	}
	if e := r.readTools(); e != nil {
		return e
	}
	if e := r.readToolConfig(); e != nil {
		return e
	}
	if e := checkObjects(m.safety); e != nil {
		return e
	}
	if r.twice.Exists() {
		return givenTwice(r.twice)
	}
	return clientapi.CheckString(m.cached)
}

// config holds the members of generationConfig.
type config struct {
	temperature, topP, topK, candidates, maxTokens, stop, seed, presence, frequency jsondoc.Value
	logprobs, topLogprobs, mimeType, schema, jsonSchema, modalities                 jsondoc.Value
	thinking, budget, level, thoughts                                               jsondoc.Value
}

// member returns the field for a member of generationConfig, nil if the gateway does not know the member.
func (c *config) member(name []byte) *jsondoc.Value {
	switch string(name) {
	case "temperature":
		return &c.temperature
	case "topP":
		return &c.topP
	case "topK":
		return &c.topK
	case "candidateCount":
		return &c.candidates
	case "maxOutputTokens":
		return &c.maxTokens
	case "stopSequences":
		return &c.stop
	case "seed":
		return &c.seed
	case "presencePenalty":
		return &c.presence
	case "frequencyPenalty":
		return &c.frequency
	case "responseLogprobs":
		return &c.logprobs
	case "logprobs":
		return &c.topLogprobs
	case "responseMimeType":
		return &c.mimeType
	case "responseSchema":
		return &c.schema
	case "responseJsonSchema", "_responseJsonSchema":
		return &c.jsonSchema
	case "responseModalities":
		return &c.modalities
	case "thinkingConfig":
		return &c.thinking
	}
	return nil
}

// readConfig checks generationConfig.
func (r *Request) readConfig() (e *apierror.Error) {
	c, f := &r.config, &r.facts
	if e := clientapi.CheckObject(r.m.config); e != nil {
		return e
	}
	for v := r.m.config.First(); v.Exists(); v = v.Next() {
		if at := c.member(r.fieldName(v)); at != nil {
			if e := set(at, v); e != nil {
				return e
			}
		}
	}
	for _, d := range [...]struct {
		v         jsondoc.Value
		low, high int64
	}{{c.temperature, 0, 2}, {c.topP, 0, 1}, {c.topK, 0, 1 << 31}, {c.presence, -2, 2}, {c.frequency, -2, 2}} {
		if e := clientapi.CheckDecimal(d.v, d.low, d.high); e != nil {
			return e
		}
	}
	const most = 1<<31 - 1
	if _, e = clientapi.CheckInteger(c.seed, -most-1, most); e != nil {
		return e
	}
	if f.MaxTokens, e = clientapi.CheckInteger(c.maxTokens, 1, clientapi.MaxTokensCeiling); e != nil {
		return e
	}
	if c.candidates.Exists() {
		n, e := clientapi.CheckInteger(c.candidates, 1, abi.MaxChoices)
		if e != nil {
			return e
		}
		f.N = int(n)
	}
	logprobs, e := clientapi.CheckBool(c.logprobs)
	if e != nil {
		return e
	}
	if logprobs {
		f.Flags |= clientapi.FlagLogprobs
	}
	if _, e := clientapi.CheckInteger(c.topLogprobs, 0, 20); e != nil {
		return e
	}
	if e := checkStrings(c.stop); e != nil {
		return e
	}
	if c.stop.Kind() == jsondoc.Array && c.stop.Len() > r.limits.Stop {
		return clientapi.TooMany(c.stop, r.limits.Stop)
	}
	if e := r.readFormat(); e != nil {
		return e
	}
	return r.readThinking()
}

// readFormat checks the response format and the response modalities.
func (r *Request) readFormat() *apierror.Error {
	c, f := &r.config, &r.facts
	if e := clientapi.CheckString(c.mimeType); e != nil {
		return e
	}
	if e := clientapi.CheckObject(c.schema); e != nil {
		return e
	}
	if c.jsonSchema.Exists() && c.schema.Exists() {
		return clientapi.InvalidValue(c.jsonSchema, clientapi.CodeInvalidValue, "'%s' cannot be given with responseSchema.")
	}
	if c.mimeType.Exists() && !c.mimeType.Is("text/plain") || c.schema.Exists() || c.jsonSchema.Exists() {
		f.Flags |= clientapi.FlagResponseFormat
	}
	f.TextBytes += len(c.schema.Raw()) + len(c.jsonSchema.Raw())
	if e := checkStrings(c.modalities); e != nil {
		return e
	}
	for v := elements(c.modalities); v.Exists(); v = v.next() {
		if v.Is("AUDIO") {
			f.Flags |= clientapi.FlagAudio
		}
	}
	return nil
}

// readThinking checks thinkingConfig, which has a budget or a level. A budget of 0 disables thinking, and with -1 the
// model decides how much to think. Without either, Google's models think as with -1, so a client that only asks for the
// thoughts wants the model to think.
func (r *Request) readThinking() (e *apierror.Error) {
	c, f := &r.config, &r.facts
	if e := clientapi.CheckObject(c.thinking); e != nil {
		return e
	}
	for v := c.thinking.First(); v.Exists(); v = v.Next() {
		var at *jsondoc.Value
		switch string(r.fieldName(v)) {
		case "thinkingBudget":
			at = &c.budget
		case "thinkingLevel":
			at = &c.level
		case "includeThoughts":
			at = &c.thoughts
		default:
			continue
		}
		if e := set(at, v); e != nil {
			return e
		}
	}
	if _, e := clientapi.CheckBool(c.thoughts); e != nil {
		return e
	}
	if e := clientapi.CheckString(c.level); e != nil {
		return e
	}
	if string(clientapi.Keyword(c.level, &r.scratch)) == "THINKING_LEVEL_UNSPECIFIED" {
		c.level = jsondoc.Value{}
	}
	budget, e := clientapi.CheckInteger(c.budget, -1, clientapi.MaxTokensCeiling)
	switch {
	case e != nil:
		return e
	case budget > 0:
		f.Thinking = clientapi.Thinking{Mode: clientapi.ThinkingEnabled, BudgetTokens: budget}
	case c.budget.Exists() && budget == 0:
		f.Thinking.Mode = clientapi.ThinkingDisabled
	case c.budget.Exists(), r.includesThoughts() && !c.level.Exists():
		f.Thinking.Mode = clientapi.ThinkingAdaptive
	}
	if f.Thinking.Asked() {
		f.Flags |= clientapi.FlagThinking
	}
	if c.level.Exists() {
		f.Flags |= clientapi.FlagReasoning
	}
	return nil
}

// includesThoughts reports whether the client asks for thoughts.
func (r *Request) includesThoughts() bool {
	on, _ := r.config.thoughts.Bool()
	return on
}

// readTools checks the tools.
func (r *Request) readTools() *apierror.Error {
	if e := checkObjects(r.m.tools); e != nil {
		return e
	}
	n := 0
	for t := elements(r.m.tools); t.Exists(); t = t.next() {
		r.facts.Flags |= clientapi.FlagTools
		functions := r.field(t.Value, "functionDeclarations")
		if e := checkObjects(functions); e != nil {
			return e
		}
		for v := elements(functions); v.Exists(); v = v.next() {
			if n++; n > r.limits.Tools {
				return clientapi.TooMany(functions, r.limits.Tools)
			}
			if e := r.checkFunction(v.Value); e != nil {
				return e
			}
			r.facts.TextBytes += len(v.Raw())
		}
	}
	r.facts.Tools = n
	return nil
}

func (r *Request) checkFunction(v jsondoc.Value) *apierror.Error {
	if e := clientapi.NeedName(r.field(v, "name"), v, "name"); e != nil {
		return e
	}
	if e := clientapi.CheckString(r.field(v, "description")); e != nil {
		return e
	}
	parameters, schema := r.field(v, "parameters"), r.field(v, "parametersJsonSchema")
	if parameters.Exists() && schema.Exists() {
		return clientapi.InvalidValue(schema, clientapi.CodeInvalidValue, "'%s' cannot be given with parameters.")
	}
	if e := clientapi.CheckObject(parameters); e != nil {
		return e
	}
	return clientapi.CheckObject(schema)
}

// readToolConfig checks toolConfig.
func (r *Request) readToolConfig() *apierror.Error {
	m := &r.m
	if e := clientapi.CheckObject(m.toolConfig); e != nil {
		return e
	}
	m.callingConfig = r.field(m.toolConfig, "functionCallingConfig")
	if e := clientapi.CheckObject(m.callingConfig); e != nil {
		return e
	}
	m.mode, m.allowed = r.field(m.callingConfig, "mode"), r.field(m.callingConfig, "allowedFunctionNames")
	if e := clientapi.CheckString(m.mode); e != nil {
		return e
	}
	return checkStrings(m.allowed)
}

// readSystem checks the system instruction.
func (r *Request) readSystem() *apierror.Error {
	if !r.m.system.Exists() {
		return nil
	}
	if e := clientapi.CheckObject(r.m.system); e != nil {
		return e
	}
	return r.readParts(r.field(r.m.system, "parts"))
}

// readContents checks the conversation.
func (r *Request) readContents() *apierror.Error {
	contents := r.m.contents
	if e := checkObjects(contents); e != nil {
		return e
	}
	if contents.Kind() == jsondoc.Array {
		switch n := contents.Len(); {
		case n == 0:
			return clientapi.EmptyArray(contents)
		case n > r.limits.Messages:
			return clientapi.TooMany(contents, r.limits.Messages)
		}
	}
	for v := elements(contents); v.Exists(); v = v.next() {
		r.facts.Messages++
		role := r.field(v.Value, "role")
		if e := clientapi.CheckString(role); e != nil {
			return e
		}
		switch word := clientapi.Keyword(role, &r.scratch); string(word) {
		case "", "user", "model", "function", "tool":
		default:
			return clientapi.NotOneOf(role, "user", "model")
		}
		parts := r.field(v.Value, "parts")
		r.hasSeal = false
		if e := r.readParts(parts); e != nil {
			return e
		}
		if r.hasSeal {
			r.cutSeals(v.Value, parts)
		}
	}
	return nil
}

// isModel reports whether a content has the role model.
func (r *Request) isModel(content jsondoc.Value) bool { return r.field(content, "role").Is("model") }

// part is one part of a content. Members that are absent or null do not exist.
type part struct {
	self                                                              jsondoc.Value
	text, thought, signature                                          jsondoc.Value
	inline, file, call, response, code, result                        jsondoc.Value
	mimeType, data, uri, name, id, args, responseValue, responseParts jsondoc.Value // members of inlineData, fileData, functionCall or functionResponse
	display                                                           jsondoc.Value
	other                                                             jsondoc.Value // a member that the gateway does not know
}

// isThought reports whether the part is one of the model's thoughts.
func (p *part) isThought() bool {
	on, _ := p.thought.Bool()
	return on
}

// scanPart finds the members of a part.
func (r *Request) scanPart(v jsondoc.Value, p *part) *apierror.Error {
	*p = part{self: v}
	for m := v.First(); m.Exists(); m = m.Next() {
		var at *jsondoc.Value
		switch string(r.fieldName(m)) {
		case "text":
			at = &p.text
		case "thought":
			at = &p.thought
		case "thoughtSignature":
			at = &p.signature
		case "inlineData":
			at = &p.inline
		case "fileData":
			at = &p.file
		case "functionCall":
			at = &p.call
		case "functionResponse":
			at = &p.response
		case "executableCode":
			at = &p.code
		case "codeExecutionResult":
			at = &p.result
		default:
			if clientapi.Given(m) {
				p.other = m
			}
			continue
		}
		if e := set(at, m); e != nil {
			return e
		}
	}
	for _, object := range [...]jsondoc.Value{p.inline, p.file, p.call, p.response} {
		if e := r.scanObject(object, p); e != nil {
			return e
		}
	}
	return nil
}

// scanObject finds the members of the object that a part contains.
func (r *Request) scanObject(v jsondoc.Value, p *part) *apierror.Error {
	if !v.Exists() {
		return nil
	}
	if v.Kind() != jsondoc.Object {
		return clientapi.WrongType(v, "an object")
	}
	for m := v.First(); m.Exists(); m = m.Next() {
		var at *jsondoc.Value
		switch string(r.fieldName(m)) {
		case "mimeType":
			at = &p.mimeType
		case "data":
			at = &p.data
		case "fileUri":
			at = &p.uri
		case "displayName":
			at = &p.display
		case "name":
			at = &p.name
		case "id":
			at = &p.id
		case "args":
			at = &p.args
		case "response":
			at = &p.responseValue
		case "parts":
			at = &p.responseParts
		default:
			continue
		}
		if e := set(at, m); e != nil {
			return e
		}
	}
	return nil
}

// readParts checks the parts of a content, and adds them to the facts of the request.
func (r *Request) readParts(parts jsondoc.Value) *apierror.Error {
	if e := checkObjects(parts); e != nil {
		return e
	}
	calls := 0
	for v := elements(parts); v.Exists(); v = v.next() {
		p := &r.part
		if e := r.scanPart(v.Value, p); e != nil {
			return e
		}
		if e := r.checkPart(p); e != nil {
			return e
		}
		if p.call.Exists() {
			if calls++; calls > r.limits.ToolCalls {
				return clientapi.TooMany(parts, r.limits.ToolCalls)
			}
		}
	}
	return nil
}

func (r *Request) checkPart(p *part) *apierror.Error {
	kinds := 0
	for _, v := range [...]jsondoc.Value{p.text, p.inline, p.file, p.call, p.response, p.code, p.result} {
		if v.Exists() {
			kinds++
		}
	}
	if kinds > 1 {
		return clientapi.InvalidValue(p.self, clientapi.CodeInvalidValue, "'%s' has more than one kind of data.")
	}
	for _, v := range [...]jsondoc.Value{p.text, p.signature, p.mimeType, p.data, p.uri, p.id, p.display} {
		if e := clientapi.CheckString(v); e != nil {
			return e
		}
	}
	if _, e := clientapi.CheckBool(p.thought); e != nil {
		return e
	}
	f := &r.facts
	f.TextBytes += len(p.text.Inside())
	if p.isThought() || p.signature.Exists() {
		f.Flags |= clientapi.FlagReasoningHistory
		r.hasSeal = r.hasSeal || r.isSeal(p.signature)
	}
	switch {
	case p.inline.Exists():
		r.recordMedia(p.mimeType)
		return clientapi.NeedString(p.data, p.inline, "data")
	case p.file.Exists():
		r.recordMedia(p.mimeType)
		return clientapi.NeedString(p.uri, p.file, "fileUri")
	case p.call.Exists():
		f.Flags |= clientapi.FlagToolHistory
		f.TextBytes += len(p.name.Inside()) + len(p.args.Raw())
		if e := clientapi.NeedName(p.name, p.call, "name"); e != nil {
			return e
		}
		return clientapi.CheckObject(p.args)
	case p.response.Exists():
		f.Flags |= clientapi.FlagToolHistory
		f.TextBytes += len(p.name.Inside()) + len(p.responseValue.Raw())
		if e := clientapi.NeedName(p.name, p.response, "name"); e != nil {
			return e
		}
		if e := clientapi.CheckObject(p.responseValue); e != nil {
			return e
		}
		return r.readResponseParts(p.responseParts)
	}
	f.TextBytes += len(p.code.Raw()) + len(p.result.Raw())
	return nil
}

// readResponseParts checks the media in a function response.
func (r *Request) readResponseParts(parts jsondoc.Value) *apierror.Error {
	if e := checkObjects(parts); e != nil {
		return e
	}
	for v := elements(parts); v.Exists(); v = v.next() {
		var p part
		if e := r.scanPart(v.Value, &p); e != nil {
			return e
		}
		if p.response.Exists() || p.call.Exists() {
			return clientapi.InvalidValue(v.Value, clientapi.CodeInvalidValue, "'%s' must not be a function call or function response.")
		}
		if e := r.checkPart(&p); e != nil {
			return e
		}
	}
	return nil
}

// recordMedia records in the request's facts that it has media of a MIME type.
func (r *Request) recordMedia(mimeType jsondoc.Value) {
	name := clientapi.Keyword(mimeType, &r.scratch)
	switch {
	case bytes.HasPrefix(name, []byte("image/")):
		r.facts.Flags |= clientapi.FlagImages
		r.facts.Images++
	case bytes.HasPrefix(name, []byte("audio/")):
		r.facts.Flags |= clientapi.FlagAudio
	default:
		r.facts.Flags |= clientapi.FlagFiles
	}
}

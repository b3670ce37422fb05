package responses

import (
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// item is an element of input.
type item struct {
	v      jsondoc.Value
	callID jsondoc.Value // calls and outputs only
	kind   itemKind
	result int32 // calls only: index of the output, set by pairCalls
}

// itemKind determines how AppendChat handles an item.
type itemKind uint8

const (
	itemUnknown   itemKind = iota
	itemUser               // a message
	itemSystem             // a message
	itemDeveloper          // a message
	itemAssistant          // a message
	itemReasoning
	itemCall           // function_call
	itemCustomCall     // custom_tool_call
	itemLocalShellCall // local_shell_call
	itemShellCall      // shell_call
	itemApplyPatchCall // apply_patch_call
	itemOutput         // the output of any of these calls
	itemHosted         // activity of a hosted tool, whose result is in a later message
	itemReference      // item_reference
	itemTools          // additional_tools
	itemConfiguration  // configuration_update
	itemNativeOnly     // supported only by providers of this API
)

// isCall reports whether an item is a call of a tool that the client runs.
func (k itemKind) isCall() bool { return k >= itemCall && k <= itemApplyPatchCall }

// parseKind returns the kind of an item by its type.
func parseKind(typ []byte) itemKind {
	switch string(typ) {
	case "reasoning":
		return itemReasoning
	case "function_call":
		return itemCall
	case "custom_tool_call":
		return itemCustomCall
	case "local_shell_call":
		return itemLocalShellCall
	case "shell_call":
		return itemShellCall
	case "apply_patch_call":
		return itemApplyPatchCall
	case "function_call_output", "custom_tool_call_output", "local_shell_call_output", "shell_call_output", "apply_patch_call_output":
		return itemOutput
	case "web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_list_tools", "mcp_call",
		"mcp_approval_request", "mcp_approval_response", "tool_search_call", "tool_search_output", "program", "program_output":
		return itemHosted
	case "item_reference":
		return itemReference
	case "additional_tools":
		return itemTools
	case "configuration_update":
		return itemConfiguration
	case "computer_call", "computer_call_output", "compaction", "compaction_summary", "compaction_trigger":
		return itemNativeOnly
	}
	return itemUnknown
}

// readInput checks input, which is a string or an array of items.
func (r *Request) readInput(root jsondoc.Value) *apierror.Error {
	in := r.m.input
	switch in.Kind() {
	case jsondoc.String:
		r.facts.Messages, r.facts.TextBytes = 1, r.facts.TextBytes+len(in.Inside())
		return nil
	case jsondoc.Invalid, jsondoc.Array:
		if in.First().Exists() || r.counting || r.m.previous.Exists() || r.m.conversation.Exists() || r.m.prompt.Exists() {
			break
		}
		if in.Exists() {
			return clientapi.EmptyArray(in)
		}
		return clientapi.Missing(root, "input")
	default:
		return clientapi.WrongType(in, "a string or an array of items")
	}
	for v := in.First(); v.Exists(); v = v.Next() {
		if len(r.items) == r.limits.Messages {
			return clientapi.TooMany(in, r.limits.Messages)
		}
		if v.Kind() != jsondoc.Object {
			return clientapi.WrongType(v, "an object")
		}
		if e := r.readItem(v); e != nil {
			return e
		}
	}
	r.facts.Messages = len(r.items)
	return nil
}

// readItem checks one item of input and adds it to the items.
func (r *Request) readItem(v jsondoc.Value) (e *apierror.Error) {
	it := item{v: v, result: -1}
	var typ, role, id, callID, content, output jsondoc.Value
	for c := v.First(); c.Exists(); c = c.Next() {
		if c.Kind() == jsondoc.Null {
			continue
		}
		switch string(r.keyword(c.Name())) {
		case "type":
			typ = c
		case "role":
			role = c
		case "id":
			id = c
		case "call_id":
			callID = c
		case "content":
			content = c
		case "output":
			output = c
		}
	}
	switch {
	case typ.Exists():
		if typ.Kind() != jsondoc.String {
			return clientapi.WrongType(typ, "a string")
		}
		if !typ.Is("message") {
			it.kind = parseKind(r.keyword(typ))
			break
		}
		fallthrough
	case role.Exists():
		if it.kind, e = r.readRole(role, v); e != nil {
			return e
		}
	case id.Exists():
		it.kind = itemReference
	default:
		return clientapi.Missing(v, "type")
	}
	switch k := it.kind; {
	case k >= itemUser && k <= itemAssistant:
		if !content.Exists() {
			return clientapi.Missing(v, "content")
		}
		e = r.readContent(content)
	case k == itemReasoning:
		e = r.readReasoningItem(v, content)
	case k.isCall():
		it.callID, e = callID, r.readCall(k, v, callID)
	case k == itemOutput:
		if it.callID = callID; !callID.Exists() && typ.Is("local_shell_call_output") {
			it.callID = id
		}
		e = r.readOutput(v, it.callID, output)
	case k == itemReference:
		e = clientapi.NeedName(id, v, "id")
	case k == itemTools:
		e = r.readTools(v.Get("tools"))
	case k == itemConfiguration:
		if reasoning := v.Get("reasoning"); clientapi.Given(reasoning) {
			e = r.readReasoning(reasoning)
		}
	default:
		r.facts.TextBytes += len(v.Raw())
	}
	r.items = append(r.items, it)
	return e
}

func (r *Request) readRole(v, message jsondoc.Value) (itemKind, *apierror.Error) {
	if e := clientapi.NeedString(v, message, "role"); e != nil {
		return itemUnknown, e
	}
	switch string(r.keyword(v)) {
	case "user":
		return itemUser, nil
	case "assistant":
		return itemAssistant, nil
	case "system":
		return itemSystem, nil
	case "developer":
		return itemDeveloper, nil
	}
	return itemUnknown, clientapi.NotOneOf(v, "assistant", "system", "developer", "user")
}

// readContent checks a content, which is a string or an array of parts, and records the kinds of parts in the facts.
func (r *Request) readContent(v jsondoc.Value) *apierror.Error {
	switch v.Kind() {
	case jsondoc.String:
		r.facts.TextBytes += len(v.Inside())
		return nil
	case jsondoc.Array:
	default:
		return clientapi.WrongType(v, "a string or an array of content parts")
	}
	for p := v.First(); p.Exists(); p = p.Next() {
		if p.Kind() != jsondoc.Object {
			return clientapi.WrongType(p, "an object")
		}
		if e := r.readPart(p); e != nil {
			return e
		}
	}
	return nil
}

// readPart checks a content part.
func (r *Request) readPart(p jsondoc.Value) *apierror.Error {
	var typ, text, refusal jsondoc.Value
	for c := p.First(); c.Exists(); c = c.Next() {
		switch string(r.keyword(c.Name())) {
		case "type":
			typ = c
		case "text":
			text = c
		case "refusal":
			refusal = c
		case "prompt_cache_breakpoint":
			if clientapi.Given(c) {
				r.facts.Flags |= clientapi.FlagCacheControl
			}
		}
	}
	if e := clientapi.NeedString(typ, p, "type"); e != nil {
		return e
	}
	switch string(r.keyword(typ)) {
	case "input_text", "output_text", "reasoning_text", "summary_text":
		r.facts.TextBytes += len(text.Inside())
		return clientapi.NeedString(text, p, "text")
	case "refusal":
		if !refusal.Exists() { // some clients send the refusal as text
			refusal = text
		}
		r.facts.TextBytes += len(refusal.Inside())
		return clientapi.NeedString(refusal, p, "refusal")
	case "input_image":
		r.facts.Flags |= clientapi.FlagImages
		r.facts.Images++
		if e := clientapi.CheckString(p.Get("image_url")); e != nil {
			return e
		}
		return clientapi.CheckString(p.Get("detail"))
	case "input_file":
		r.facts.Flags |= clientapi.FlagFiles
		for _, member := range [...]string{"file_data", "file_url", "file_id", "filename"} {
			if e := clientapi.CheckString(p.Get(member)); e != nil {
				return e
			}
		}
	case "input_audio":
		r.facts.Flags |= clientapi.FlagAudio
		audio := p.Get("input_audio")
		if e := clientapi.NeedObject(audio, p, "input_audio"); e != nil {
			return e
		}
		if e := clientapi.NeedString(audio.Get("data"), audio, "data"); e != nil {
			return e
		}
		return clientapi.NeedString(audio.Get("format"), audio, "format")
	}
	return nil
}

// readReasoningItem checks the reasoning of an earlier turn. Only AppendChat opens the seals in it.
func (r *Request) readReasoningItem(v, content jsondoc.Value) *apierror.Error {
	r.facts.Flags |= clientapi.FlagReasoningHistory
	sealed := v.Get("encrypted_content")
	r.facts.TextBytes += len(sealed.Inside())
	if e := clientapi.CheckString(sealed); e != nil {
		return e
	}
	for _, list := range [...]jsondoc.Value{v.Get("summary"), content} {
		if !clientapi.Given(list) {
			continue
		}
		if e := clientapi.CheckArray(list); e != nil {
			return e
		}
		if e := r.readContent(list); e != nil {
			return e
		}
	}
	return nil
}

// readCall checks a call of a tool that the client runs.
func (r *Request) readCall(kind itemKind, v, callID jsondoc.Value) *apierror.Error {
	r.facts.Flags |= clientapi.FlagToolHistory
	if e := clientapi.NeedName(callID, v, "call_id"); e != nil {
		return e
	}
	member := ""
	switch kind {
	case itemCall:
		member = "arguments"
	case itemCustomCall:
		member = "input"
	case itemLocalShellCall, itemShellCall:
		member = "action"
	default:
		member = "operation"
	}
	arguments := v.Get(member)
	if kind != itemCall && kind != itemCustomCall {
		r.facts.TextBytes += len(arguments.Raw())
		return clientapi.NeedObject(arguments, v, member)
	}
	name := v.Get("name")
	r.facts.TextBytes += len(name.Inside()) + len(arguments.Inside())
	if e := clientapi.NeedName(name, v, "name"); e != nil {
		return e
	}
	if e := clientapi.CheckString(v.Get("namespace")); e != nil {
		return e
	}
	return clientapi.NeedString(arguments, v, member)
}

// readOutput checks the output of a call.
func (r *Request) readOutput(v, callID, output jsondoc.Value) *apierror.Error {
	r.facts.Flags |= clientapi.FlagToolHistory
	if e := clientapi.NeedName(callID, v, "call_id"); e != nil {
		return e
	}
	if v.Get("type").Is("apply_patch_call_output") && !output.Exists() {
		return nil
	}
	if !output.Exists() {
		return clientapi.Missing(v, "output")
	}
	if v.Get("type").Is("shell_call_output") {
		r.facts.TextBytes += len(output.Raw())
		return clientapi.CheckObjects(output)
	}
	return r.readContent(output)
}

package clientapi

import (
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Text is a text of a request.
type Text struct {
	Value   jsondoc.Value // a string
	What    abi.What
	Message int32         // index of its message
	JSON    bool          // the string is a JSON document that contains the texts, like the arguments of a tool call
	Fixed   bool          // the text must not be edited, because it must equal another one or has a syntax of its own
	Seal    jsondoc.Value // the provider's signature or encryption of the text, which an edit invalidates; mostly absent
}

// Texts calls f with every string of a request, in document order, until a call fails. It skips only what docs/filters.md
// lists: words of the API, identifiers, URLs, encoded data and credentials, which it recognises by the names of their
// members. These mean the same in all APIs, and unknown members are texts.
func Texts(d *jsondoc.Doc, api string, f func(Text) error) error {
	w := textWalk{api: api, f: f}
	return w.request(d.Root())
}

// textWalk is the state of Texts.
type textWalk struct {
	api     string
	f       func(Text) error
	message int32
	seal    jsondoc.Value // of the reasoning that is being walked
}

// request walks the members of a request.
func (w *textWalk) request(root jsondoc.Value) error {
	for m := root.First(); m.Exists(); m = m.Next() {
		w.message = 0
		if err := w.topLevel(root, m); err != nil {
			return err
		}
	}
	return nil
}

func (w *textWalk) topLevel(root, m jsondoc.Value) error {
	var scratch []byte
	switch string(Keyword(m.Name(), &scratch)) {
	case "system", "instructions", "systemInstruction", "system_instruction":
		return w.member(root, m, abi.WhatSystem)
	case "messages", "contents":
		return w.messages(root, m)
	case "input":
		if w.api == "responses" {
			return w.messages(root, m)
		}
	case "prompt", "suffix":
		return w.member(root, m, abi.WhatUser)
	case "generateContentRequest", "generate_content_request":
		if m.Kind() == jsondoc.Object {
			return w.request(m)
		}
	}
	return w.member(root, m, abi.WhatOther)
}

// messages walks the messages of a conversation, or the items of an input.
func (w *textWalk) messages(root, list jsondoc.Value) error {
	switch list.Kind() {
	case jsondoc.Array:
	case jsondoc.Object: // Gemini: a single content instead of a list
		return w.object(list, messageKind(list))
	default:
		return w.member(root, list, abi.WhatUser)
	}
	for m := list.First(); m.Exists(); m = m.Next() {
		if err := w.value(m, messageKind(m), editable); err != nil {
			return err
		}
		w.message++
	}
	return nil
}

// messageKind returns the kind of the texts of a message or an item, by its role or type.
func messageKind(m jsondoc.Value) abi.What {
	switch role := m.Get("role"); {
	case role.Is("system"), role.Is("developer"):
		return abi.WhatSystem
	case role.Is("assistant"), role.Is("model"):
		return abi.WhatAssistant
	case role.Is("tool"), role.Is("function"):
		return abi.WhatToolResult
	}
	return abi.WhatUser
}

// partKind returns the kind of the texts of an object within texts of the kind what, by the object's type.
func partKind(object jsondoc.Value, what abi.What) abi.What {
	switch string(object.Get("type").Inside()) {
	case "reasoning":
		return abi.WhatAssistant
	case "function_call", "custom_tool_call", "tool_use", "server_tool_use", "mcp_tool_use", "mcp_call", "local_shell_call", "shell_call", "apply_patch_call":
		return abi.WhatSentArguments
	case "function_call_output", "custom_tool_call_output", "tool_result", "mcp_tool_result", "local_shell_call_output", "shell_call_output", "apply_patch_call_output":
		return abi.WhatToolResult
	}
	return what
}

// reasoningSeal returns the signature of an object that is reasoning, or its encrypted form, if it has one.
func reasoningSeal(object jsondoc.Value) (seal jsondoc.Value) {
	switch {
	case object.Get("thought").Kind() == jsondoc.True:
		if seal = object.Get("thoughtSignature"); !seal.Exists() {
			seal = object.Get("thought_signature")
		}
	case object.Get("type").Is("reasoning"):
		seal = object.Get("encrypted_content")
	default:
		seal = object.Get("signature")
	}
	return seal
}

// treatment tells what happens to the strings of a member that are not in an object.
type treatment uint8

const (
	editable treatment = iota
	fixed              // must not be edited: see Text.Fixed
	skipped
)

// value walks the value of a member or an element. Its treatment does not extend to the members of objects.
func (w *textWalk) value(v jsondoc.Value, what abi.What, t treatment) error {
	switch v.Kind() {
	case jsondoc.String:
		switch t {
		case fixed:
			return w.f(Text{Value: v, What: abi.WhatOther, Message: w.message, Fixed: true})
		case editable:
			return w.f(Text{Value: v, What: what, Message: w.message, Seal: w.seal})
		}
	case jsondoc.Array:
		for e := v.First(); e.Exists(); e = e.Next() {
			if err := w.value(e, what, t); err != nil {
				return err
			}
		}
	case jsondoc.Object:
		return w.object(v, what)
	}
	return nil
}

// object walks the members of an object.
func (w *textWalk) object(v jsondoc.Value, what abi.What) error {
	if what != abi.WhatOther {
		what = partKind(v, what)
	}
	outer := w.seal
	if seal := reasoningSeal(v); len(seal.Inside()) > 0 {
		w.seal = seal
	}
	for m := v.First(); m.Exists(); m = m.Next() {
		if err := w.member(v, m, what); err != nil {
			return err
		}
	}
	w.seal = outer
	return nil
}

// member walks a member of an object whose texts are of the kind what.
func (w *textWalk) member(object, m jsondoc.Value, what abi.What) error {
	var scratch []byte
	switch string(Keyword(m.Name(), &scratch)) {
	case "type", "role", "status", "phase", "model",
		"id", "call_id", "tool_call_id", "tool_use_id", "file_id", "file_ids", "container", "container_id", "vector_store_id",
		"vector_store_ids", "tunnel_id", "skill_id", "connector_id", "approval_request_id", "previous_response_id", "previous_message_id",
		"comparison_response_id", "conversation", "cachedContent", "cached_content",
		"url", "image_url", "video_url", "file_url", "server_url", "uri", "fileUri", "file_uri",
		"file_data", "image", "images", "signature", "thoughtSignature", "thought_signature", "encrypted_content", "encrypted_index",
		"authorization", "authorization_token":
		return w.value(m, what, skipped)
	case "data":
		if !object.Get("type").Is("text") { // a document's source, which is text
			return w.value(m, what, skipped)
		}
	case "result":
		if object.Get("type").Is("image_generation_call") {
			return w.value(m, what, skipped)
		}
	case "logprobs", "headers":
		return nil
	case "name", "tool_name", "tool_names", "server_name", "mcp_server_name", "server_label", "namespace",
		"allowed_tools", "allowedFunctionNames", "allowed_function_names", "stop", "stop_sequences", "stopSequences":
		return w.value(m, what, fixed)
	case "tool_calls", "function_call", "functionCall":
		if what != abi.WhatOther {
			what = abi.WhatSentArguments
		}
	case "functionResponse", "function_response":
		what = abi.WhatToolResult
	case "arguments":
		if m.Kind() == jsondoc.String {
			return w.f(Text{Value: m, What: abi.WhatSentArguments, Message: w.message, JSON: true})
		}
		return w.all(m, abi.WhatSentArguments, false)
	case "action", "operation":
		return w.all(m, what, false)
	case "parameters", "input_schema", "schema", "guided_json", "responseSchema", "response_schema", "responseJsonSchema", "response_json_schema",
		"_responseJsonSchema", "_response_json_schema", "parametersJsonSchema", "parameters_json_schema":
		return w.schema(m)
	}
	if freeNames(m) {
		return w.all(m, what, false)
	}
	return w.value(m, what, editable)
}

// all walks a value in which every string is a text, whatever its name.
func (w *textWalk) all(v jsondoc.Value, what abi.What, fixed bool) error {
	if v.Kind() == jsondoc.String {
		return w.f(Text{Value: v, What: what, Message: w.message, Fixed: fixed})
	}
	for m := v.First(); m.Exists(); m = m.Next() {
		if err := w.all(m, what, fixed); err != nil {
			return err
		}
	}
	return nil
}

// schema walks a JSON Schema. A model reads its descriptions like any other text. The other strings are fixed, because
// the response must match them.
func (w *textWalk) schema(v jsondoc.Value) (err error) {
	if v.Kind() == jsondoc.String {
		return w.all(v, abi.WhatOther, true)
	}
	for m := v.First(); m.Exists() && err == nil; m = m.Next() {
		var scratch []byte
		switch name := string(Keyword(m.Name(), &scratch)); name {
		case "description", "title", "$comment":
			err = w.all(m, abi.WhatOther, false)
		case "type", "required", "propertyOrdering", "property_ordering": // keywords and names of properties
			err = w.value(m, abi.WhatOther, skipped)
		case "properties", "$defs", "definitions":
			for s := m.First(); s.Exists() && err == nil; s = s.Next() {
				err = w.schema(s)
			}
		case "enum", "const", "default", "example", "examples":
			err = w.all(m, abi.WhatOther, true)
		default:
			err = w.schema(m)
		}
	}
	return err
}

package clientapi

import (
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// TextFunc receives a text of a request: a string, its kind, and the index of its message. If json is set, the string
// is a JSON document that contains the texts, like the arguments of a tool call.
type TextFunc func(v jsondoc.Value, what abi.What, message int32, json bool) error

// Texts calls f with every string of a request that a model reads as text, in document order, until a call fails. It
// recognises members by their names, which mean the same in all APIs. Unknown members count as text if they are in an
// object that contains texts. It skips names, identifiers, URLs, the data of images, audio and files, and reasoning
// that is sent back, because that is signed by its provider.
func Texts(d *jsondoc.Doc, api string, f TextFunc) error {
	w := textWalk{f: f}
	root := d.Root()
	for m := root.First(); m.Exists(); m = m.Next() {
		w.message = 0
		if err := w.member(api, m); err != nil {
			return err
		}
	}
	return nil
}

// textWalk is the state of Texts.
type textWalk struct {
	f       TextFunc
	message int32
}

// member walks a member of the request.
func (w *textWalk) member(api string, m jsondoc.Value) error {
	var scratch []byte
	switch string(Keyword(m.Name(), &scratch)) {
	case "system", "instructions", "systemInstruction", "system_instruction":
		return w.texts(m, abi.WhatSystem)
	case "messages", "contents":
		return w.messages(m)
	case "input":
		switch {
		case api != "responses":
			return w.texts(m, abi.WhatOther)
		case m.Kind() == jsondoc.String:
			return w.texts(m, abi.WhatUser)
		}
		return w.messages(m)
	case "prompt":
		if m.Kind() == jsondoc.Object { // the template of a hosted prompt
			for v := m.Get("variables").First(); v.Exists(); v = v.Next() {
				if err := w.texts(v, abi.WhatUser); err != nil {
					return err
				}
			}
			return nil
		}
		return w.texts(m, abi.WhatUser)
	case "suffix":
		return w.texts(m, abi.WhatUser)
	case "query", "documents", "prediction":
		return w.texts(m, abi.WhatOther)
	case "tools", "functions", "response_format", "output_config", "text", "tool_config", "generationConfig", "generation_config", "mcp_servers":
		return w.descriptions(m)
	}
	return nil
}

// messages walks the messages of a conversation, or the items of an input.
func (w *textWalk) messages(list jsondoc.Value) error {
	switch list.Kind() {
	case jsondoc.Array:
	case jsondoc.Object: // Gemini: a single content instead of a list
		return w.oneMessage(list)
	default:
		return nil
	}
	for m := list.First(); m.Exists(); m = m.Next() {
		if err := w.oneMessage(m); err != nil {
			return err
		}
		w.message++
	}
	return nil
}

// oneMessage walks a message or an item. Its role or type determines the kind of its texts.
func (w *textWalk) oneMessage(m jsondoc.Value) error {
	what := abi.WhatUser
	switch role := m.Get("role"); {
	case role.Is("system"), role.Is("developer"):
		what = abi.WhatSystem
	case role.Is("assistant"), role.Is("model"):
		what = abi.WhatAssistant
	case role.Is("tool"), role.Is("function"):
		what = abi.WhatToolResult
	case role.Exists():
	default:
		what = itemKind(m.Get("type").Inside())
	}
	if what == reasoningText {
		return nil
	}
	return w.texts(m, what)
}

// reasoningText is the kind of texts that are skipped.
const reasoningText abi.What = -1

// itemKind returns the kind of the texts of an item without a role, by the item's type.
func itemKind(typ []byte) abi.What {
	switch string(typ) {
	case "reasoning", "thinking", "redacted_thinking":
		return reasoningText
	case "function_call", "custom_tool_call", "tool_use", "server_tool_use", "mcp_tool_use", "mcp_call", "local_shell_call", "shell_call", "apply_patch_call":
		return abi.WhatSentArguments
	case "function_call_output", "custom_tool_call_output", "tool_result", "mcp_tool_result", "local_shell_call_output", "shell_call_output", "apply_patch_call_output":
		return abi.WhatToolResult
	}
	return abi.WhatUser
}

// texts walks a value whose strings are texts, except for members that part skips.
func (w *textWalk) texts(v jsondoc.Value, what abi.What) error {
	switch v.Kind() {
	case jsondoc.String:
		return w.f(v, what, w.message, false)
	case jsondoc.Array:
		for e := v.First(); e.Exists(); e = e.Next() {
			kind := what
			if e.Kind() == jsondoc.Object {
				if kind = partKind(e, what); kind == reasoningText {
					continue
				}
			}
			if err := w.texts(e, kind); err != nil {
				return err
			}
		}
	case jsondoc.Object:
		for m := v.First(); m.Exists(); m = m.Next() {
			if err := w.part(v, m, what); err != nil {
				return err
			}
		}
	}
	return nil
}

// partKind returns the kind of the texts of a part of a message whose kind is what.
func partKind(part jsondoc.Value, what abi.What) abi.What {
	typ := part.Get("type").Inside()
	if kind := itemKind(typ); kind != abi.WhatUser {
		return kind
	}
	if part.Get("thought").Kind() == jsondoc.True {
		return reasoningText
	}
	return what
}

// part walks a member of a message or of one of its parts.
func (w *textWalk) part(object, m jsondoc.Value, what abi.What) error {
	switch name := m.Name(); string(name.Inside()) {
	case "role", "type", "id", "name", "model", "status", "tool_call_id", "call_id", "tool_use_id", "server_name", "namespace", "cache_control", "detail",
		"image_url", "video_url", "file_url", "url", "uri", "file_id", "file_data", "filename", "input_audio", "audio", "image", "images", "inlineData", "inline_data", "fileData", "file_data_uri",
		"media_type", "mime_type", "mimeType", "format", "signature", "thought_signature", "thoughtSignature", "encrypted_content", "encrypted_index",
		"reasoning_details", "extra_content", "logprobs", "phase", "environment":
		return nil
	case "reasoning_content", "reasoning", "thinking":
		if m.Kind() != jsondoc.String || object.Get("signature").Exists() || object.Get("reasoning_details").Exists() {
			return nil
		}
		return w.texts(m, what)
	case "source": // source of a document or an image, which may be a text
		switch typ := m.Get("type"); {
		case typ.Is("text"):
			return w.texts(m.Get("data"), what)
		case typ.Is("content"):
			return w.texts(m.Get("content"), what)
		case m.Kind() == jsondoc.String: // source of a search result
			return nil
		}
		return nil
	case "file": // data of a file in chat completions
		return nil
	case "tool_calls":
		return w.texts(m, abi.WhatSentArguments)
	case "function_call", "functionCall", "function":
		return w.texts(m, abi.WhatSentArguments)
	case "functionResponse", "function_response":
		return w.texts(m.Get("response"), abi.WhatToolResult)
	case "arguments":
		if m.Kind() == jsondoc.String {
			return w.f(m, abi.WhatSentArguments, w.message, true)
		}
		return w.all(m, abi.WhatSentArguments)
	case "input", "args", "action", "operation":
		// The arguments of a call, which are a text for a custom tool.
		return w.all(m, what)
	case "variables", "response":
		return w.all(m, what)
	}
	return w.texts(m, what)
}

// all walks a value in which every string is a text, whatever its name.
func (w *textWalk) all(v jsondoc.Value, what abi.What) error {
	switch v.Kind() {
	case jsondoc.String:
		return w.f(v, what, w.message, false)
	case jsondoc.Object, jsondoc.Array:
		for m := v.First(); m.Exists(); m = m.Next() {
			if err := w.all(m, what); err != nil {
				return err
			}
		}
	}
	return nil
}

// descriptions walks tools and formats. A model reads their descriptions and those in their schemas.
func (w *textWalk) descriptions(v jsondoc.Value) error {
	for m := v.First(); m.Exists(); m = m.Next() {
		name := m.Name()
		switch {
		case m.Kind() == jsondoc.Object || m.Kind() == jsondoc.Array:
			if err := w.descriptions(m); err != nil {
				return err
			}
		case m.Kind() == jsondoc.String && (name.Is("description") || name.Is("title") || name.Is("instructions") || name.Is("definition") || name.Is("server_description")):
			if err := w.f(m, abi.WhatOther, 0, false); err != nil {
				return err
			}
		}
	}
	return nil
}

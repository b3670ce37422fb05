package clientapi

import (
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// TextFunc takes a text of a request: a string, what it is, and the number of its message. json says that the string holds JSON with the
// texts, as arguments do.
type TextFunc func(v jsondoc.Value, what abi.What, message int32, json bool) error

// Texts calls f with every string of a request in an API that a model reads as text, in the order of the document, until one of the calls
// fails. It goes by the names of members, which mean the same in all APIs: what has no known meaning is text if it stands where texts stand.
// Left out are names, identifiers, addresses, what stands for images, audio and files, and reasoning that is sent back, which its provider has signed.
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

// textWalk is a walk through a request.
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
	case jsondoc.Object: // Gemini: one in place of a list
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

// oneMessage walks a message, or an item, whose role or type says who has written it.
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
		what = itemText(m.Get("type").Inside())
	}
	if what == reasoningText {
		return nil
	}
	return w.texts(m, what)
}

// reasoningText stands for what is not filtered.
const reasoningText abi.What = -1

// itemText is what the texts of an item without a role are, by its type.
func itemText(typ []byte) abi.What {
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

// texts walks a value whose strings are texts, as far as their names do not say otherwise.
func (w *textWalk) texts(v jsondoc.Value, what abi.What) error {
	switch v.Kind() {
	case jsondoc.String:
		return w.f(v, what, w.message, false)
	case jsondoc.Array:
		for e := v.First(); e.Exists(); e = e.Next() {
			of := what
			if e.Kind() == jsondoc.Object {
				if of = partText(e, what); of == reasoningText {
					continue
				}
			}
			if err := w.texts(e, of); err != nil {
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

// partText is what the texts of a part of a message are.
func partText(part jsondoc.Value, what abi.What) abi.What {
	typ := part.Get("type").Inside()
	if of := itemText(typ); of != abi.WhatUser {
		return of
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
	case "source": // of a document or an image; only a text is one
		switch typ := m.Get("type"); {
		case typ.Is("text"):
			return w.texts(m.Get("data"), what)
		case typ.Is("content"):
			return w.texts(m.Get("content"), what)
		case m.Kind() == jsondoc.String: // where a search result comes from
			return nil
		}
		return nil
	case "file": // chat completions: the file itself
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
		// The arguments of a call; of a custom tool they are a text.
		return w.all(m, what)
	case "variables", "response":
		return w.all(m, what)
	}
	return w.texts(m, what)
}

// all walks a value of which every string is a text, whatever its name is.
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

// descriptions walks tools and formats, of which a model reads the descriptions of themselves and of what is in their schemas.
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

package responses

import (
	"bytes"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// passedEvents are the events that stream a text, by the common part of their types. An event with the suffix .delta
// has a piece of the text in its member delta, and the one with the suffix .done has the complete text.
var passedEvents = map[string]struct {
	what  abi.What
	text  string // the member of the .done event that has the text
	index string // the member that has the text's index within its item
}{
	"response.output_text":                {abi.WhatText, "text", "content_index"},
	"response.refusal":                    {abi.WhatRefusal, "refusal", "content_index"},
	"response.reasoning_text":             {abi.WhatReasoning, "text", "content_index"},
	"response.reasoning_summary_text":     {abi.WhatReasoning, "text", "summary_index"},
	"response.function_call_arguments":    {abi.WhatToolArguments, "arguments", ""},
	"response.mcp_call_arguments":         {abi.WhatToolArguments, "arguments", ""},
	"response.custom_tool_call_input":     {abi.WhatToolArguments, "input", ""},
	"response.code_interpreter_call_code": {abi.WhatToolArguments, "code", ""},
}

// summaryPart is added to the index of summary texts, to tell them apart from reasoning texts.
const summaryPart = 1 << 20

// passedTexts implements clientapi.PassedTexts.
func passedTexts(name []byte, frame jsondoc.Value, stream bool, f func(clientapi.PassedText)) {
	if !stream {
		passedOutput(frame, f)
		return
	}
	if typ := frame.Get("type"); len(typ.Inside()) > 0 {
		name = typ.Inside()
	}
	key := int32(max(index(frame.Get("output_index")), 0))
	base, last := cutLast(name)
	if known, ok := passedEvents[string(base)]; ok && (last == "delta" || last == "done") {
		t := clientapi.PassedText{What: known.what, Key: key}
		if known.index != "" {
			t.Part = int32(max(index(frame.Get(known.index)), 0))
		}
		if known.index == "summary_index" {
			t.Part += summaryPart
		}
		passedStreamedText(frame, t, known.text, last, f)
		return
	}
	switch string(name) {
	case "response.content_part.added", "response.content_part.done":
		passedPart(frame.Get("part"), key, f)
	case "response.reasoning_summary_part.added", "response.reasoning_summary_part.done":
		passedReasoning(frame.Get("part").Get("text"), key, f)
	case "response.output_text.annotation.added":
		clientapi.PassedStrings(frame.Get("annotation"), abi.WhatText, f)
	case "response.output_item.done":
		for _, what := range []abi.What{abi.WhatText, abi.WhatRefusal, abi.WhatReasoning, abi.WhatToolArguments} {
			f(clientapi.PassedText{Place: clientapi.PassedEnd, What: what, Key: key})
		}
		passedItem(frame.Get("item"), key, f)
	case "response.output_item.added":
		passedItem(frame.Get("item"), key, f)
	default:
		if r := frame.Get("response"); r.Exists() {
			if string(base) == "response" && (last == "completed" || last == "incomplete") {
				f(clientapi.PassedText{Place: clientapi.PassedEndAll})
			}
			passedOutput(r, f)
		} else if frame.Get("delta").Kind() == jsondoc.String {
			f(clientapi.PassedText{Place: clientapi.PassedUnknown})
		}
	}
}

// cutLast splits off the last segment of an event's type. It returns "" for a segment that passedTexts does not use.
func cutLast(name []byte) (before []byte, last string) {
	at := bytes.LastIndexByte(name, '.')
	if at < 0 {
		return name, ""
	}
	for _, word := range [...]string{"delta", "done", "completed", "incomplete"} {
		if string(name[at+1:]) == word {
			last = word
		}
	}
	return name[:at], last
}

// passedStreamedText reports the text of an event of passedEvents: a piece if last is "delta", otherwise the complete
// text in the member named textMember.
func passedStreamedText(frame jsondoc.Value, t clientapi.PassedText, textMember, last string, f func(clientapi.PassedText)) {
	if p := frame.Get("logprobs"); p.First().Exists() {
		f(clientapi.PassedText{Value: p, Place: clientapi.PassedProbs})
	}
	arguments := t.What == abi.WhatToolArguments
	if last == "delta" {
		if t.Value = frame.Get("delta"); t.Value.Kind() == jsondoc.String {
			if arguments {
				t.Place = clientapi.PassedArguments
			}
			f(t)
		}
		return
	}
	t.Place = clientapi.PassedEnd
	f(t)
	if t.Value = frame.Get(textMember); t.Value.Kind() == jsondoc.String {
		if t.Place = clientapi.PassedWhole; arguments {
			t.Place = clientapi.PassedJSON
		}
		f(t)
	}
}

// passedOutput reports the texts of a response object.
func passedOutput(r jsondoc.Value, f func(clientapi.PassedText)) {
	key := int32(0)
	for item := firstElement(r.Get("output")); item.Exists(); item = item.Next() {
		passedItem(item, key, f)
		key++
	}
	if t := r.Get("output_text"); t.Kind() == jsondoc.String {
		f(clientapi.PassedText{Value: t, Place: clientapi.PassedWhole, What: abi.WhatText})
	}
}

// passedItem reports the texts of an item.
func passedItem(item jsondoc.Value, key int32, f func(clientapi.PassedText)) {
	switch typ := item.Get("type"); {
	case typ.Is("message"):
		for p := firstElement(item.Get("content")); p.Exists(); p = p.Next() {
			passedPart(p, key, f)
		}
	case typ.Is("reasoning"):
		for _, list := range []string{"summary", "content"} {
			for p := firstElement(item.Get(list)); p.Exists(); p = p.Next() {
				passedReasoning(p.Get("text"), key, f)
			}
		}
		if s := item.Get("encrypted_content"); len(s.Inside()) > 0 {
			f(clientapi.PassedText{Value: s, Place: clientapi.PassedSeal, Key: key})
		}
	case typ.Is("function_call"), typ.Is("custom_tool_call"), typ.Is("mcp_call"), typ.Is("code_interpreter_call"):
		for _, member := range []string{"arguments", "input", "code"} {
			if v := item.Get(member); v.Kind() == jsondoc.String {
				f(clientapi.PassedText{Value: v, Place: clientapi.PassedJSON, What: abi.WhatToolArguments})
			} else {
				clientapi.PassedValues(v, abi.WhatToolArguments, f)
			}
		}
		for _, member := range []string{"output", "outputs", "error"} {
			clientapi.PassedStrings(item.Get(member), abi.WhatText, f)
		}
	case typ.Is("image_generation_call"):
	default:
		clientapi.PassedStrings(item, abi.WhatText, f)
	}
}

// passedPart reports the texts of a content part of a message.
func passedPart(p jsondoc.Value, key int32, f func(clientapi.PassedText)) {
	if p.Get("type").Is("reasoning_text") {
		passedReasoning(p.Get("text"), key, f)
		return
	}
	if probs := p.Get("logprobs"); probs.First().Exists() {
		f(clientapi.PassedText{Value: probs, Place: clientapi.PassedProbs})
	}
	for member, what := range map[string]abi.What{"text": abi.WhatText, "refusal": abi.WhatRefusal} {
		if v := p.Get(member); v.Kind() == jsondoc.String {
			f(clientapi.PassedText{Value: v, Place: clientapi.PassedWhole, What: what})
		}
	}
	for a := firstElement(p.Get("annotations")); a.Exists(); a = a.Next() {
		clientapi.PassedStrings(a, abi.WhatText, f)
	}
}

// passedReasoning reports a complete text of reasoning.
func passedReasoning(v jsondoc.Value, key int32, f func(clientapi.PassedText)) {
	if v.Kind() == jsondoc.String {
		f(clientapi.PassedText{Value: v, Place: clientapi.PassedWhole, What: abi.WhatReasoning, Key: key})
	}
}

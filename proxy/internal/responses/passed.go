package responses

import (
	"bytes"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// passedEvents are the events with a piece of a text, or with all of it at its end, by their type without the word that says which: what
// the text is, the member that has it at the end, and that numbers it within its item.
var passedEvents = map[string]struct {
	what         abi.What
	whole, place string
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

// summaryPart tells the texts of a summary from those of the reasoning itself.
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
		if known.place != "" {
			t.Part = int32(max(index(frame.Get(known.place)), 0))
		}
		if known.place == "summary_index" {
			t.Part += summaryPart
		}
		passedPiece(frame, t, known.whole, last, f)
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

// cutLast splits a type before its last word.
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

// passedPiece finds the text of an event with a piece, or with the whole text at its end.
func passedPiece(frame jsondoc.Value, t clientapi.PassedText, whole, last string, f func(clientapi.PassedText)) {
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
	if t.Value = frame.Get(whole); t.Value.Kind() == jsondoc.String {
		if t.Place = clientapi.PassedWhole; arguments {
			t.Place = clientapi.PassedJSON
		}
		f(t)
	}
}

// passedOutput finds the texts of a response.
func passedOutput(r jsondoc.Value, f func(clientapi.PassedText)) {
	key := int32(0)
	for item := elements(r.Get("output")); item.Exists(); item = item.Next() {
		passedItem(item, key, f)
		key++
	}
	if t := r.Get("output_text"); t.Kind() == jsondoc.String {
		f(clientapi.PassedText{Value: t, Place: clientapi.PassedWhole, What: abi.WhatText})
	}
}

// passedItem finds the texts of an item.
func passedItem(item jsondoc.Value, key int32, f func(clientapi.PassedText)) {
	switch typ := item.Get("type"); {
	case typ.Is("message"):
		for p := elements(item.Get("content")); p.Exists(); p = p.Next() {
			passedPart(p, key, f)
		}
	case typ.Is("reasoning"):
		for _, list := range []string{"summary", "content"} {
			for p := elements(item.Get(list)); p.Exists(); p = p.Next() {
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

// passedPart finds the texts of a part of a message.
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
	for a := elements(p.Get("annotations")); a.Exists(); a = a.Next() {
		clientapi.PassedStrings(a, abi.WhatText, f)
	}
}

// passedReasoning finds a whole text of reasoning.
func passedReasoning(v jsondoc.Value, key int32, f func(clientapi.PassedText)) {
	if v.Kind() == jsondoc.String {
		f(clientapi.PassedText{Value: v, Place: clientapi.PassedWhole, What: abi.WhatReasoning, Key: key})
	}
}

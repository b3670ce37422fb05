package gemini

import (
	"bytes"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// passedTexts implements clientapi.PassedTexts. A run of text parts of a candidate is one text, and so is a run of
// thoughts. Each ends when a part of another kind begins.
func passedTexts(_ []byte, frame jsondoc.Value, stream bool, f func(clientapi.PassedText)) {
	for v := frame.Get("candidates").First(); v.Exists(); v = v.Next() {
		index, _ := v.Get("index").Int()
		choice := int32(max(min(index, abi.MaxChoices), 0))
		finished := !stream || len(v.Get("finishReason").Inside()) > 0
		passedParts(v.Get("content").Get("parts"), choice, finished, f)
		for _, metadata := range []string{"groundingMetadata", "citationMetadata", "urlContextMetadata"} {
			clientapi.PassedStrings(v.Get(metadata), abi.WhatText, f)
		}
		if probs := v.Get("logprobsResult"); probs.Kind() == jsondoc.Object {
			f(clientapi.PassedText{Value: probs, Place: clientapi.PassedProbs, Choice: choice})
		}
	}
}

// passedParts reports the texts in the parts of a candidate. finished is set if no more parts of the candidate follow.
func passedParts(parts jsondoc.Value, choice int32, finished bool, f func(clientapi.PassedText)) {
	texts := [...]abi.What{abi.WhatText, abi.WhatReasoning}
	kindOf := func(p jsondoc.Value) (what abi.What, isText bool) {
		if p.Get("text").Kind() != jsondoc.String {
			return 0, false
		}
		if thought, _ := p.Get("thought").Bool(); thought {
			return abi.WhatReasoning, true
		}
		return abi.WhatText, true
	}
	first := parts.First()
	firstKind, isText := kindOf(first)
	for _, what := range texts {
		// The text of earlier frames has ended unless the first part of this frame continues it.
		if first.Exists() && (!isText || firstKind != what) || !first.Exists() && finished {
			f(clientapi.PassedText{Place: clientapi.PassedEnd, What: what, Choice: choice, Key: textKey(what)})
		}
	}
	for p := first; p.Exists(); p = p.Next() {
		what, isText := kindOf(p)
		if isText {
			t := clientapi.PassedText{Value: p.Get("text"), What: what, Choice: choice, Key: textKey(what)}
			next := p.Next()
			if nextKind, isText := kindOf(next); next.Exists() && (!isText || nextKind != what) || !next.Exists() && finished {
				t.Place = clientapi.PassedLast
			}
			f(t)
		} else {
			passedPart(p, f)
		}
		if seal := p.Get("thoughtSignature"); len(seal.Inside()) > 0 {
			f(clientapi.PassedText{Value: seal, Place: clientapi.PassedSeal, Choice: choice, Key: textKey(abi.WhatReasoning)})
		}
	}
}

// textKey returns the PassedText.Key of a candidate's text or thoughts.
func textKey(what abi.What) int32 { return int32(what) }

// passedPart reports the texts within a part that is not a text itself.
func passedPart(p jsondoc.Value, f func(clientapi.PassedText)) {
	switch data := p.Get("inlineData"); {
	case p.Get("functionCall").Exists():
		clientapi.PassedValues(p.Get("functionCall").Get("args"), abi.WhatToolArguments, f)
	case data.Exists() && bytes.HasPrefix(data.Get("mimeType").Inside(), []byte("image/")):
	case data.Exists():
		f(clientapi.PassedText{Place: clientapi.PassedUnknown})
	default:
		for m := p.First(); m.Exists(); m = m.Next() {
			clientapi.PassedStrings(m, abi.WhatText, f)
		}
	}
}

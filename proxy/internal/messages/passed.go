package messages

import (
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// passedTexts implements clientapi.PassedTexts.
func passedTexts(name []byte, frame jsondoc.Value, stream bool, f func(clientapi.PassedText)) {
	if !stream {
		key := int32(0)
		for b := frame.Get("content").First(); b.Exists(); b = b.Next() {
			passedBlock(b, key, clientapi.PassedWhole, f)
			key++
		}
		return
	}
	if kind := frame.Get("type"); len(kind.Inside()) > 0 {
		name = kind.Inside()
	}
	index, _ := frame.Get("index").Int()
	key := int32(max(min(index, maxKey), 0))
	switch string(name) {
	case "message_start":
		passedTexts(nil, frame.Get("message"), false, f)
	case "content_block_start":
		passedBlock(frame.Get("content_block"), key, clientapi.PassedLast, f)
	case deltaEvent:
		passedDelta(frame.Get("delta"), key, f)
	case "content_block_stop":
		for _, what := range []abi.What{abi.WhatText, abi.WhatReasoning, abi.WhatToolArguments} {
			f(clientapi.PassedText{Place: clientapi.PassedEnd, What: what, Key: key})
		}
	case "message_delta", "message_stop":
		f(clientapi.PassedText{Place: clientapi.PassedEndAll})
	}
}

// passedDelta reports the text of a delta.
func passedDelta(d jsondoc.Value, key int32, f func(clientapi.PassedText)) {
	t := clientapi.PassedText{Key: key, Drop: true}
	kind := deltaKind(d.Get("type").Inside())
	t.Value = d.Get(deltaMembers[kind])
	switch kind {
	case textDelta:
		t.What = abi.WhatText
	case thinkingDelta:
		t.What = abi.WhatReasoning
	case inputDelta:
		t.What, t.Place = abi.WhatToolArguments, clientapi.PassedArguments
	case signatureDelta:
		t.Place = clientapi.PassedSeal
	default:
		clientapi.PassedStrings(d, abi.WhatText, f)
		clientapi.PassedStrings(d.Get("citation"), abi.WhatText, f)
		return
	}
	if t.Value.Kind() == jsondoc.String {
		f(t)
	}
}

// passedBlock reports the texts of a content block, which is either complete or the start of a streamed one.
func passedBlock(b jsondoc.Value, key int32, place clientapi.PassedPlace, f func(clientapi.PassedText)) {
	text := func(v jsondoc.Value, what abi.What) {
		if v.Kind() == jsondoc.String {
			f(clientapi.PassedText{Value: v, Place: place, What: what, Key: key})
		}
	}
	switch kind := b.Get("type"); {
	case kind.Is("text"):
		text(b.Get("text"), abi.WhatText)
		for c := b.Get("citations").First(); c.Exists(); c = c.Next() {
			clientapi.PassedStrings(c, abi.WhatText, f)
		}
	case kind.Is("thinking"):
		text(b.Get("thinking"), abi.WhatReasoning)
		if s := b.Get("signature"); len(s.Inside()) > 0 {
			f(clientapi.PassedText{Value: s, Place: clientapi.PassedSeal, Key: key})
		}
	case kind.Is("redacted_thinking"):
	case kind.Is("tool_use"), kind.Is("server_tool_use"), kind.Is("mcp_tool_use"):
		clientapi.PassedValues(b.Get("input"), abi.WhatToolArguments, f)
	default:
		clientapi.PassedStrings(b, abi.WhatText, f)
	}
}

package calls

import (
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// passedTexts implements clientapi.PassedTexts: only completions have texts.
func passedTexts(_ []byte, frame jsondoc.Value, stream bool, f func(clientapi.PassedText)) {
	for c := frame.Get("choices").First(); c.Exists(); c = c.Next() {
		index, _ := c.Get("index").Int()
		t := clientapi.PassedText{Value: c.Get("text"), What: abi.WhatText, Choice: int32(index), Key: int32(index)}
		if probs := c.Get("logprobs"); probs.Kind() > jsondoc.Null {
			f(clientapi.PassedText{Value: probs, Place: clientapi.PassedProbs, Choice: t.Choice})
		}
		ended := c.Get("finish_reason").Kind() > jsondoc.Null
		switch {
		case t.Value.Kind() != jsondoc.String:
			t.Place = clientapi.PassedEnd
			if !ended {
				continue
			}
		case !stream:
			t.Place = clientapi.PassedWhole
		case ended:
			t.Place = clientapi.PassedLast
		}
		f(t)
	}
}

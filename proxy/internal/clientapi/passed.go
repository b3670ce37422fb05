package clientapi

import (
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// PassedText is a text, or the end of a text, in a frame of a response that is passed on unchanged.
type PassedText struct {
	Value  jsondoc.Value // a string; absent for PassedEnd, any kind for PassedSeal
	Place  PassedPlace
	What   abi.What
	Choice int32
	Key    int32 // identifies, with What and Choice, a text that arrives in pieces, or the block that a seal belongs to
	Part   int32 // identifies the text within a block
	Drop   bool  // the frame has no other content, so it is dropped if filters remove the whole text
}

// PassedPlace tells which part of a text a PassedText is.
type PassedPlace uint8

// The places.
const (
	PassedPiece     PassedPlace = iota // a piece of a text
	PassedLast                         // the last piece
	PassedEnd                          // the text of this key has ended
	PassedEndAll                       // all texts have ended
	PassedWhole                        // a complete text, which may repeat pieces of earlier frames
	PassedArguments                    // a piece of a tool call's arguments; the frame has no other content
	PassedJSON                         // complete arguments
	PassedSeal                         // the provider's signature or encryption of a block of reasoning
	PassedProbs                        // log probabilities of the choice's text
	PassedUnknown                      // content that cannot be checked
)

// PassedTexts calls f with the texts in a frame, in an order in which they can be filtered: the texts of a block of
// reasoning come before its seal. frame is an event of a stream, with its name, or the body of a non-streaming
// response.
type PassedTexts func(name []byte, frame jsondoc.Value, stream bool, f func(PassedText))

// PassedStrings calls f with every string of a value that a client may display: all except names, identifiers, URLs and
// encoded data, and reasoning that is signed.
func PassedStrings(v jsondoc.Value, what abi.What, f func(PassedText)) {
	w := textWalk{f: func(t Text) error {
		place := PassedWhole
		if t.JSON {
			place = PassedJSON
		}
		if !t.Fixed && !t.Seal.Exists() {
			f(PassedText{Value: t.Value, Place: place, What: what})
		}
		return nil
	}}
	_ = w.value(v, what, editable)
}

// PassedValues calls f with every string of a value, whatever its name.
func PassedValues(v jsondoc.Value, what abi.What, f func(PassedText)) {
	w := textWalk{f: func(t Text) error {
		f(PassedText{Value: t.Value, Place: PassedWhole, What: what})
		return nil
	}}
	_ = w.all(v, what, false)
}

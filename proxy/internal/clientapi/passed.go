package clientapi

import (
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// PassedText is a text in a frame of a response that is passed on as its provider sends it, or the end of one.
type PassedText struct {
	Value  jsondoc.Value // a string; of PassedEnd nothing; of PassedSeal any
	Place  PassedPlace
	What   abi.What
	Choice int32
	Key    int32 // with What and Choice names a text that comes in pieces, or the block that a seal belongs to
	Part   int32 // the same within a block
	Drop   bool  // the frame holds nothing else: it is left out if nothing of the text is left
}

// PassedPlace is where a text stands.
type PassedPlace uint8

// The places.
const (
	PassedPiece     PassedPlace = iota // a piece of a text
	PassedLast                         // the last piece
	PassedEnd                          // the text of this key has ended
	PassedEndAll                       // all texts have ended
	PassedWhole                        // a whole text, which may have come in pieces before
	PassedArguments                    // a piece of a tool's arguments: nothing else is in the frame
	PassedJSON                         // whole arguments
	PassedSeal                         // what the provider has signed or encrypted of a block of reasoning
	PassedProbs                        // log probabilities of the choice's text
	PassedUnknown                      // what cannot be checked
)

// PassedTexts calls f with the texts in a frame, in an order in which they can be filtered: of a block of reasoning the texts first. Frame is
// an event of a stream with its name, or the body of a non-streaming response.
type PassedTexts func(name []byte, frame jsondoc.Value, stream bool, f func(PassedText))

// PassedStrings calls f with every string of a value that a client may show: all but names, identifiers, addresses and what is encoded.
func PassedStrings(v jsondoc.Value, what abi.What, f func(PassedText)) {
	w := textWalk{f: func(v jsondoc.Value, _ abi.What, _ int32, json bool) error {
		place := PassedWhole
		if json {
			place = PassedJSON
		}
		f(PassedText{Value: v, Place: place, What: what})
		return nil
	}}
	if v.Kind() == jsondoc.Object {
		for m := v.First(); m.Exists(); m = m.Next() {
			w.part(v, m, what)
		}
		return
	}
	w.texts(v, what)
}

// PassedValues calls f with every string of a value, whatever its name is.
func PassedValues(v jsondoc.Value, what abi.What, f func(PassedText)) {
	w := textWalk{f: func(v jsondoc.Value, _ abi.What, _ int32, _ bool) error {
		f(PassedText{Value: v, Place: PassedWhole, What: what})
		return nil
	}}
	w.all(v, what)
}

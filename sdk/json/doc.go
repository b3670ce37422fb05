// Package json reads and writes JSON in plugins. It is faster than encoding/json, does not allocate, and adds little to
// the size of a module.
//
//   - Reader reads a document once, from beginning to end: upstream events and the client's body.
//   - Reader.Members reads an object with known members (a Shape) in one call.
//   - Value gives random access to a small document, such as a plugin's options or an error body.
//   - Writer appends a document to a buffer.
//
// For example, this reads the text of {"delta":{"text":"Hello"}} and passes it on:
//
//	var r json.Reader
//	r.Reset(event.Data)
//	for o := r.Object(); o.Next(); {
//		if string(r.Name()) == "delta" {
//			for o := r.Object(); o.Next(); {
//				if string(r.Name()) == "text" {
//					answer.Text(0, abi.EncodingEscaped, r.Inside())
//				}
//			}
//		}
//	}
//	return r.End()
//
// Methods named Inside return the bytes between the quotes of a string, still escaped. The gateway accepts text in this
// form (abi.EncodingEscaped), so a plugin need not unescape text that it passes on. Methods named Text return the text
// unescaped.
//
// A Reader is safe for untrusted input: it accepts what RFC 8259 accepts, up to MaxDepth nested containers, and never
// panics. It does not check that strings are valid UTF-8 or that surrogates are paired; the gateway checks both in
// everything that enters a response.
//
// Returned slices share the memory of the document unless documented otherwise.
//
// Nothing here is safe for concurrent use.
//
// # Implementation
//
// Plugins pay fuel for calls and jumps rather than for bytes. The scanning loops therefore process eight bytes at a
// time as one word (see scan.go), and the hottest ones are written out where they are used: if inside, skipToDepth and
// fastSkip shared the loop over a string, a translator would use 2% more fuel per event.
//
// Some loops also load the zero bytes between a document's length and its capacity, and then check that the value they
// found ends within the document.
package json

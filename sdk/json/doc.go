// Package json reads and writes JSON inside a guest: one pass, eight bytes a step, no allocation.
//
// Reader pulls values out of a document in the order in which they stand there. Value is a document that is small
// enough to be looked into more than once, such as a plugin's settings. Writer appends.
//
// Strings are handed out as they stand between their quotes, still escaped, wherever the caller can use them so: the
// gateway takes text in that form (abi.EncodingEscaped), so that a translator never unescapes what it passes on.
//
// A Reader is safe on hostile bytes: it accepts what RFC 8259 accepts, up to MaxDepth levels, and never panics. Two
// things it leaves to the gateway, which checks whatever enters an answer: whether strings are valid UTF-8, and whether
// the halves of surrogate pairs fit together.
//
// Nothing here is safe for concurrent use. The package imports only packages that add nothing to a guest.
package json

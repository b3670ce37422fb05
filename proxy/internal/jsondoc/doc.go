// Package jsondoc parses a JSON document once, strictly, into a flat index of its values (the tape).
//
// What routes a request and what is forwarded must never be two readings of the same bytes. So a document is accepted only if
// every parser reads the same value from it: UTF-8 throughout, no unpaired surrogates, no member name twice in one object
// (also not when one of them is written with escapes), nothing after the value, no number that overflows a float64, bounded
// depth and size. (Limits.Loose relaxes some of this for providers, whose documents are only read and never forwarded.) An
// accepted document can be navigated (Value), edited in one pass (Edits) and compacted, without building a tree and without
// changing a digit.
//
// The package does not know what the members mean, and does no input or output.
//
// Concurrency: a Doc and the Values and Edits that belong to it are for one goroutine at a time, reads included, since
// some reads use scratch memory of the Doc. The functions are safe for concurrent use.
package jsondoc

import (
	"fmt"
	"math"
)

// Kind is the type of a value. The zero Kind is that of an absent value.
type Kind uint8

// The kinds of values.
const (
	Invalid Kind = iota // absent
	Null
	False
	True
	Number
	String
	Object
	Array
)

var kindNames = [...]string{"nothing", "null", "false", "true", "number", "string", "object", "array"}

// String is the kind's name in lower case.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Limits bounds a document.
type Limits struct {
	Depth int // levels of arrays and objects; 0 is DefaultDepth
	Nodes int // values and member names; 0 is DefaultNodes

	// Loose is for documents of providers, which are only read: strings may hold invalid UTF-8 and unpaired surrogates,
	// since a character may be cut between two documents, and of two members with one name Get finds the first.
	Loose bool

	// FlatNumbers keeps arrays that hold nothing but numbers as one value without elements, whose Raw is checked: of vectors
	// the numbers are only copied, and each would take 16 bytes of the tape.
	FlatNumbers bool
}

// What Limits' zero values stand for. DefaultDepth is 128: deeper than any schema seen in requests, and far from what
// overflows the stack of a recursive parser after the gateway. DefaultNodes keeps the tape of one document at 16 MiB.
const (
	DefaultDepth = 128
	DefaultNodes = 1 << 20
)

// SyntaxError is where and why a document was rejected.
type SyntaxError struct {
	Offset    int    // in bytes
	Reason    string // never holds bytes of the document
	Surrogate bool   // the reason is an unpaired surrogate: see RepairSurrogates
}

// Error is the reason and the offset.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("json: %s at byte %d", e.Reason, e.Offset)
}

// node is a value or a member name on the tape. The tape is in document order: an object's node is followed by its
// members, name and value in turn, an array's node by its elements, each with all that it holds.
type node struct {
	start, end uint32 // the bytes, quotes and brackets included
	next       uint32 // the node after this one and all that it holds; while a container is open, its parent
	kind       Kind
	flags      uint8
}

const (
	flagEscaped uint8 = 1 << iota // a string with at least one escape sequence
	flagName                      // a member name
	flagMember                    // the value of a member: its name is the node before it
	flagLast                      // the last element or member of its container
)

// noParent is the parent of the root.
const noParent = math.MaxUint32

// maxBody keeps offsets within uint32, and offsets and lengths within an int everywhere.
const maxBody = math.MaxInt32 - 16

// Doc is a parsed document. The zero value is an empty one, ready for Parse. A Doc that is used again does not allocate
// once it has grown to the documents that it sees.
type Doc struct {
	body    []byte
	nodes   []node
	spaces  int      // bytes of white space between the tokens
	parses  uint64   // number of calls of Parse: Edits check that they belong to this document
	visited uint64   // see Visited
	names   []uint64 // hash table of member names, see unique.go
	scratch []byte   // unescaped names and pointer tokens
	arrays  [cachedArrays]arrayCursor
}

// Reset drops the document and releases its body. Memory that only a very large document needs is freed.
func (d *Doc) Reset() {
	const keepNodes, keepNames, keepScratch = 64 << 10, 16 << 10, 64 << 10
	d.body = nil
	d.nodes = trim(d.nodes, keepNodes)
	d.names = trim(d.names, keepNames)
	d.scratch = trim(d.scratch, keepScratch)
	d.spaces, d.visited = 0, 0
	d.arrays = [cachedArrays]arrayCursor{}
}

// trim empties a slice and drops its memory if that is more than keep elements.
func trim[E any](s []E, keep int) []E {
	if cap(s) > keep {
		return nil
	}
	return s[:0]
}

// Root is the document's value; it is absent if there is no document, or if Parse rejected it.
func (d *Doc) Root() Value {
	if len(d.nodes) == 0 {
		return Value{}
	}
	return Value{d, 0}
}

// Size is the number of bytes of the document.
func (d *Doc) Size() int { return len(d.body) }

// Visited counts the values that Get, Pointer and Edits have walked over since Parse. A host that looks up values for a guest
// charges it for them: one look-up in a large object costs time in proportion to its members.
func (d *Doc) Visited() uint64 { return d.visited }

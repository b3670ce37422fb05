// Package jsondoc parses a JSON document once, strictly, into a flat index of its values (the tape).
//
// The gateway must never route a request by one reading of its bytes while the provider acts on another. So a document
// is accepted only if every parser reads the same value from it: valid UTF-8, no unpaired surrogates, no duplicate
// member names in an object (even if they are escaped differently), nothing after the value, no number that overflows a
// float64, bounded depth and size. Limits.Loose relaxes some of this for documents of providers, which are only read
// and never forwarded. An accepted document can be navigated (Value), edited in one pass (Edits) and compacted, without
// building a tree and without changing the digits of a number.
//
// The package does not know the meaning of any member.
//
// Concurrency: a Doc and the Values and Edits that belong to it may be used by one goroutine at a time, even for
// reading, because some reads use scratch memory of the Doc. Functions are safe for concurrent use.
package jsondoc

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Kind is the type of a value. The zero Kind means an absent value.
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

// String returns the kind's name in lower case.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Limits bounds a document.
type Limits struct {
	Depth int // maximum nesting of arrays and objects; 0 means DefaultDepth
	Nodes int // maximum number of values and member names; 0 means DefaultNodes

	// Loose is for documents of providers, which are only read. Strings may contain invalid UTF-8 and unpaired
	// surrogates, because a character may be split between two documents. Objects may have duplicate member names; Get
	// finds the first one.
	Loose bool

	// FlatNumbers stores an array that contains only numbers as one value without elements, whose Raw has been checked.
	// It is for embedding vectors: their numbers are only copied, and each would take 16 bytes on the tape.
	FlatNumbers bool

	// Source is the document that this one was made from, if there is one. Long strings that were copied from it are
	// compared instead of scanned. It only saves time, and is not used after Parse.
	Source *Doc
}

// Defaults of Limits. DefaultDepth is deeper than any schema seen in requests, and far below what overflows the stack
// of a recursive parser at the provider. DefaultNodes bounds the tape of one document to 16 MiB.
const (
	DefaultDepth = 128
	DefaultNodes = 1 << 20
)

// SyntaxError says where and why a document was rejected.
type SyntaxError struct {
	Offset    int    // in bytes
	Reason    string // never quotes the document
	Surrogate bool   // the reason is an unpaired surrogate (see RepairSurrogates)
}

// Error returns the reason and the offset.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("json: %s at byte %d", e.Reason, e.Offset)
}

// node is a value or a member name on the tape. The tape is in document order: the node of an object is followed by its
// members, name and value in turn, and that of an array by its elements, each followed by its own contents.
type node struct {
	start, end uint32 // range in the body, including quotes and brackets
	next       uint32 // index of the node after this one and its contents; while a container is open, index of its parent
	kind       Kind
	flags      uint8
}

const (
	flagEscaped uint8 = 1 << iota // a string with at least one escape sequence
	flagName                      // a member name
	flagMember                    // the value of a member, whose name is the node before it
	flagLast                      // the last element or member of its container
	flagCased                     // a container that may have a cased member name at any depth (see cased.go)
)

// noParent is the parent of the root.
const noParent = math.MaxUint32

// maxBody keeps offsets within uint32, and offsets and lengths within an int everywhere.
const maxBody = math.MaxInt32 - 16

// Doc is a parsed document. The zero value is empty and ready for Parse. A Doc that is reused does not allocate once it
// has grown to the size of its documents.
type Doc struct {
	body    []byte
	nodes   []node
	loose   bool     // Limits.Loose
	spaces  int      // bytes of white space between the tokens
	parses  uint64   // number of calls of Parse, by which Edits detect that the document has changed
	visited uint64   // see Visited
	names   []uint64 // hash table of member names (see unique.go)
	scratch []byte   // unescaped names and pointer tokens
	arrays  [cachedArrays]arrayCursor
}

// Reset removes the document and releases its body. It keeps memory for the next document, unless that is only needed
// for very large documents.
func (d *Doc) Reset() {
	const keepNodes, keepNames, keepScratch = 64 << 10, 16 << 10, 64 << 10
	d.body = nil
	d.nodes = trim(d.nodes, keepNodes)
	d.names = trim(d.names, keepNames)
	d.scratch = trim(d.scratch, keepScratch)
	d.spaces, d.visited = 0, 0
	d.arrays = [cachedArrays]arrayCursor{}
}

// trim empties a slice, and releases its memory if its capacity is more than keep elements.
func trim[E any](s []E, keep int) []E {
	if cap(s) > keep {
		return nil
	}
	return s[:0]
}

// Root returns the document's value. It is absent if there is no document, or if Parse rejected it.
func (d *Doc) Root() Value {
	if len(d.nodes) == 0 {
		return Value{}
	}
	return Value{d, 0}
}

// Size returns the number of bytes of the document.
func (d *Doc) Size() int { return len(d.body) }

// Values returns the number of values and member names.
func (d *Doc) Values() int { return len(d.nodes) }

// AppendBounds appends the bounds of each value that has at least size bytes: its offset and the offset of its end,
// as two little-endian numbers of 32 bits. The highest bit of the end is set for a string with escapes. Values are in
// document order.
func (d *Doc) AppendBounds(dst []byte, size int) []byte {
	for i := range d.nodes {
		n := &d.nodes[i]
		if int(n.end-n.start) < size || n.flags&flagName != 0 {
			continue
		}
		end := n.end
		if n.flags&flagEscaped != 0 {
			end |= 1 << 31
		}
		dst = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(dst, n.start), end)
	}
	return dst
}

// Visited returns the number of values that Get, Pointer and Edits have visited since Parse. A host that looks up
// values for a guest charges the guest for them, because a lookup in a large object takes time in proportion to its
// members.
func (d *Doc) Visited() uint64 { return d.visited }

package jsondoc

import (
	"fmt"
	"slices"
)

// Parse parses body. It keeps body without copying it, so body must not change until Reset or the next Parse. An error
// is a *SyntaxError and leaves the Doc empty.
func (d *Doc) Parse(body []byte, l Limits) error {
	if l.Depth <= 0 {
		l.Depth = DefaultDepth
	}
	if l.Nodes <= 0 {
		l.Nodes = DefaultNodes
	}
	d.parses++
	d.spaces, d.visited = 0, 0
	d.arrays = [cachedArrays]arrayCursor{}
	d.body, d.loose = body, l.Loose
	nodes, at, reason := d.scan(d.nodes[:0], l)
	d.nodes = nodes
	if reason != "" {
		d.body, d.nodes = nil, nodes[:0]
		return &SyntaxError{Offset: at, Reason: reason, Surrogate: reason == reasonLow || reason == reasonHigh}
	}
	return nil
}

// Reasons for SyntaxError that are used more than once.
const (
	reasonEnd   = "unexpected end of the document"
	reasonValue = "expected a value"
	reasonName  = "expected a member name in quotes"
	reasonMore  = "expected a comma or the end of the array or object"
	reasonLow   = "an unpaired low surrogate"
	reasonHigh  = "an unpaired high surrogate"
)

// scan appends the document to the tape in one pass. It returns the tape, which may have moved, and where and why the
// document is rejected. The reason is empty if it is accepted.
//
// There is no separate stack, because the node of an open container stores its parent in next.
func (d *Doc) scan(nodes []node, l Limits) (tape []node, at int, reason string) {
	b := d.body
	if len(b) > maxBody {
		return nodes, 0, "the document is too large"
	}
	if len(b) >= 3 && b[0] == 0xEF && b[1] == 0xBB && b[2] == 0xBF {
		return nodes, 0, "the document begins with a byte order mark"
	}
	var (
		i      int
		spaces int
		depth  int
		parent uint32 = noParent
		last   uint32 // node of the value that ended most recently
		member uint8  // flagMember if the next value is that of a member, else 0
		room   = min(cap(nodes), l.Nodes)
		copied = d.copiesFrom(l.Source)
	)
	if i = skipSpace(b, 0); i == len(b) {
		return nodes, i, "the document is empty"
	}
	spaces = i

value:
	// i is at the first byte of a value, or at the end.
	if i >= len(b) {
		return nodes, i, reasonEnd
	}
	if len(nodes) >= room {
		if len(nodes) >= l.Nodes {
			return nodes, i, fmt.Sprintf("the document has more than %d values", l.Nodes)
		}
		nodes = slices.Grow(nodes, max(64, len(nodes)))
		room = min(cap(nodes), l.Nodes)
	}
	last = uint32(len(nodes))
	if b[i] == '"' {
		end, flags, why := shortString(b, i+1), uint8(0), ""
		if end == 0 && copied.source != nil {
			end, flags = copied.find(b, i)
		}
		if end == 0 {
			if end, flags, why = scanString(b, i+1, l.Loose); why != "" {
				return nodes, end, why
			}
		}
		nodes = appendNode(nodes, i, end+1, last+1, String, flags|member)
		i = end + 1
		goto after
	}
	switch c := b[i]; c {
	case '{', '[':
		if depth++; depth > l.Depth {
			return nodes, i, fmt.Sprintf("the document is nested deeper than %d levels", l.Depth)
		}
		kind, closer := Object, byte('}')
		if c == '[' {
			kind, closer = Array, ']'
		}
		nodes = appendNode(nodes, i, 0, parent, kind, member)
		parent = last
		i++
		if i < len(b) && b[i] <= ' ' {
			n := skipSpace(b, i)
			spaces += n - i
			i = n
		}
		if i >= len(b) {
			return nodes, i, reasonEnd
		}
		if b[i] == closer {
			goto closed
		}
		if kind == Object {
			goto name
		}
		if l.FlatNumbers {
			if end, gaps, ok := scanNumbers(b, i); ok {
				i = end
				spaces += gaps
				goto closed
			}
		}
		member = 0
		goto value

	case 't':
		if i+4 > len(b) || string(b[i:i+4]) != "true" {
			return nodes, i, reasonValue
		}
		nodes = appendNode(nodes, i, i+4, last+1, True, member)
		i += 4

	case 'f':
		if i+5 > len(b) || string(b[i:i+5]) != "false" {
			return nodes, i, reasonValue
		}
		nodes = appendNode(nodes, i, i+5, last+1, False, member)
		i += 5

	case 'n':
		if i+4 > len(b) || string(b[i:i+4]) != "null" {
			return nodes, i, reasonValue
		}
		nodes = appendNode(nodes, i, i+4, last+1, Null, member)
		i += 4

	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		end, why := scanNumber(b, i)
		if why != "" {
			return nodes, end, why
		}
		nodes = appendNode(nodes, i, end, last+1, Number, member)
		i = end

	default:
		return nodes, i, reasonValue
	}

after:
	// A value ends before i.
	if i < len(b) && b[i] <= ' ' {
		n := skipSpace(b, i)
		spaces += n - i
		i = n
	}
	if parent == noParent {
		if i < len(b) {
			return nodes, i, "there is data after the document"
		}
		d.spaces = spaces
		return nodes, 0, ""
	}
	if i >= len(b) {
		return nodes, i, reasonEnd
	}
	if b[i] == ',' {
		i++
		if i < len(b) && b[i] <= ' ' {
			n := skipSpace(b, i)
			spaces += n - i
			i = n
		}
		if member = 0; nodes[parent].kind == Array {
			goto value
		}
		goto name
	}
	if c := b[i]; c != '}' && c != ']' || (c == '}') != (nodes[parent].kind == Object) {
		return nodes, i, reasonMore
	}
	nodes[last].flags |= flagLast

closed:
	// i is at the closing bracket of parent.
	i++
	{
		o := &nodes[parent]
		if o.kind == Object && !l.Loose {
			name, flags := d.duplicate(nodes, parent)
			if name != 0 {
				return nodes, int(nodes[name].start), "a member name appears twice in one object"
			}
			o.flags |= flags
		}
		o.end = uint32(i)
		last, parent, o.next = parent, o.next, uint32(len(nodes))
		if depth--; depth > 0 {
			nodes[parent].flags |= o.flags & flagCased
		}
	}
	goto after

name:
	// A member name must begin at i.
	if i >= len(b) {
		return nodes, i, reasonEnd
	}
	if b[i] != '"' {
		return nodes, i, reasonName
	}
	if len(nodes) >= room {
		if len(nodes) >= l.Nodes {
			return nodes, i, fmt.Sprintf("the document has more than %d values", l.Nodes)
		}
		nodes = slices.Grow(nodes, max(64, len(nodes)))
		room = min(cap(nodes), l.Nodes)
	}
	{
		end, flags, why := shortString(b, i+1), uint8(0), ""
		if end == 0 {
			if end, flags, why = scanString(b, i+1, l.Loose); why != "" {
				return nodes, end, why
			}
		}
		n := uint32(len(nodes))
		nodes = appendNode(nodes, i, end+1, n+1, String, flags|flagName)
		i = end + 1
	}
	if i < len(b) && b[i] <= ' ' {
		n := skipSpace(b, i)
		spaces += n - i
		i = n
	}
	if i >= len(b) {
		return nodes, i, reasonEnd
	}
	if b[i] != ':' {
		return nodes, i, "expected a colon"
	}
	i++
	if i < len(b) && b[i] <= ' ' {
		n := skipSpace(b, i)
		spaces += n - i
		i = n
	}
	member = flagMember
	goto value
}

// appendNode appends a node, for which nodes must have capacity. It does not call append with a composite literal,
// because the compiler builds that on the stack with small stores and copies it with one large load, and the stall took
// half the time of a scan.
func appendNode(nodes []node, start, end int, next uint32, kind Kind, flags uint8) []node {
	nodes = nodes[:len(nodes)+1]
	n := &nodes[len(nodes)-1]
	n.start, n.end, n.next, n.kind, n.flags = uint32(start), uint32(end), next, kind, flags
	return nodes
}

// skipSpace returns the first index from i on that is not white space.
func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

package openai

import (
	"bytes"
	"slices"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
)

// maxMembers is how many extra members one object may have; others are dropped.
const maxMembers = 64

// maxSticky is the length of the longest value that is repeated in every chunk.
const maxSticky = 256

// members is the extra members of one object, in the order in which their names came first. Memory is kept from one use to
// the next.
type members struct {
	list []member
	size int // bytes of names and values
}

// member is one extra member. Name and value are as they stand in JSON, the name without quotes.
//
// Of a list that grows (mergeList) the value is what stands between the brackets, of a text (mergeText) between the quotes.
// An object that grows (mergeObject) has its members in sub, and value is what came first.
type member struct {
	name  []byte
	rule  merge
	value []byte
	sub   members
}

// merge is what happens when a member comes again.
type merge uint8

const (
	mergeReplace merge = iota // the last one wins
	mergeList                 // lists append
	mergeText                 // strings concatenate
	mergeObject               // each member by its own rule
)

// mergeRule is the rule for a member of the response, a choice or a message; parent is the object that it is in, if that is
// an extra member itself.
func mergeRule(parent, name []byte) merge {
	switch string(parent) {
	case "":
		switch string(name) {
		case "annotations", "citations", "images":
			return mergeList
		case "logprobs", "audio", "function_call":
			return mergeObject
		}
	case "logprobs":
		switch string(name) {
		case "content", "refusal":
			return mergeList
		}
	case "audio":
		switch string(name) {
		case "data", "transcript":
			return mergeText
		}
	case "function_call":
		if string(name) == "arguments" {
			return mergeText
		}
	}
	return mergeReplace
}

func (ms *members) reset() {
	const keep = 8
	ms.size = 0
	if cap(ms.list) > keep {
		ms.list = nil
		return
	}
	ms.list = ms.list[:0]
}

// get returns the member with a name, nil if there is none.
func (ms *members) get(name []byte) *member {
	for i := range ms.list {
		if bytes.Equal(ms.list[i].name, name) {
			return &ms.list[i]
		}
	}
	return nil
}

// remove removes a member, if it is there. It returns how many bytes fewer are held.
func (ms *members) remove(name []byte) (size int, ok bool) {
	e := ms.get(name)
	if e == nil {
		return 0, false
	}
	size = len(e.name) + len(e.value) + e.sub.size
	ms.size -= size
	ms.list = slices.DeleteFunc(ms.list, func(e member) bool { return bytes.Equal(e.name, name) })
	return size, true
}

// find returns the member with a name, making it if need be; nil if there are too many.
func (ms *members) find(name []byte) (_ *member, isNew bool) {
	if e := ms.get(name); e != nil {
		return e, false
	}
	n := len(ms.list)
	switch {
	case n >= maxMembers:
		return nil, false
	case n < cap(ms.list):
		ms.list = ms.list[:n+1]
		e := &ms.list[n]
		e.name, e.value, e.rule = append(e.name[:0], name...), response.Reuse(e.value), mergeReplace
		e.sub.reset()
	default:
		ms.list = append(ms.list, member{name: append([]byte(nil), name...)})
	}
	return &ms.list[n], true
}

// add merges a member into the object. name is escaped, value is compact JSON; both are copied. It returns how many bytes
// more are held, and false if there is no room for another member.
func (ms *members) add(parent, name, value []byte) (size int, ok bool) {
	e, isNew := ms.find(name)
	if e == nil {
		return 0, false
	}
	before := len(e.value)
	if isNew {
		before = -len(name)
	}
	rule := mergeRule(parent, name)
	switch {
	case rule != mergeReplace && !isNew && string(value) == "null":
		// null adds nothing to what has been collected.
	case rule == mergeList && value[0] == '[':
		if e.rule != mergeList {
			e.rule, e.value = mergeList, e.value[:0]
		}
		if inside := value[1 : len(value)-1]; len(inside) > 0 {
			if len(e.value) > 0 {
				e.value = append(e.value, ',')
			}
			e.value = append(e.value, inside...)
		}
	case rule == mergeText && value[0] == '"':
		if e.rule != mergeText {
			e.rule, e.value = mergeText, e.value[:0]
		}
		e.value = append(e.value, value[1:len(value)-1]...)
	case rule == mergeObject && value[0] == '{' && len(e.value) > 0 && e.value[0] == '{':
		// An object is split into its members when it comes a second time: in a stream it does not.
		if e.rule != mergeObject {
			e.rule = mergeObject
			size = e.addMembers(e.value)
		}
		size += e.addMembers(value)
	default:
		e.rule, e.value = mergeReplace, append(e.value[:0], value...)
	}
	size += len(e.value) - before
	ms.size += size
	return size, true
}

// addMembers merges the members of an object into those of e.
func (e *member) addMembers(object []byte) (size int) {
	var d jsondoc.Doc
	if d.Parse(object, jsondoc.Limits{}) != nil {
		return 0 // it has been checked before
	}
	for v := d.Root().First(); v.Exists(); v = v.Next() {
		n, _ := e.sub.add(e.name, v.Name().Inside(), v.Raw())
		size += n
	}
	return size
}

// appendTo appends the members, each with a comma in front.
func (ms *members) appendTo(dst []byte) []byte {
	for i := range ms.list {
		e := &ms.list[i]
		dst = append(append(append(dst, `,"`...), e.name...), `":`...)
		switch e.rule {
		case mergeList:
			dst = append(append(append(dst, '['), e.value...), ']')
		case mergeText:
			dst = append(append(append(dst, '"'), e.value...), '"')
		case mergeObject:
			dst = append(dst, '{')
			from := len(dst)
			dst = e.sub.appendTo(dst)
			dst = dropComma(dst, from)
			dst = append(dst, '}')
		default:
			dst = append(dst, e.value...)
		}
	}
	return dst
}

// dropComma removes the byte at from, which is the comma in front of an object's first member, if there is one.
func dropComma(dst []byte, from int) []byte {
	if len(dst) == from {
		return dst
	}
	copy(dst[from:], dst[from+1:])
	return dst[:len(dst)-1]
}

// scalar reports whether a JSON value is neither an object nor an array.
func scalar(value []byte) bool { return value[0] != '{' && value[0] != '[' }

// add adds a member, whose name is in r.escaped, to one of the objects of the response.
func (r *Renderer) add(to *members, value []byte) bool {
	size, ok := to.add(nil, r.escaped, value)
	r.out.Held += size
	return ok
}

// addToResponse adds an extra member of the response, whose name is in r.escaped. In a stream a short scalar holds for all of
// the response, such as the system's fingerprint, and is in every chunk from then on; anything else is in one.
func (r *Renderer) addToResponse(value []byte) bool {
	if !r.stream || !scalar(value) || len(value) > maxSticky {
		if n, ok := r.sticky.remove(r.escaped); ok {
			r.out.Held -= n
			r.prefix = r.prefix[:0]
		}
		return r.add(&r.once, value)
	}
	if e := r.sticky.get(r.escaped); e != nil && bytes.Equal(e.value, value) {
		return true
	}
	n, _ := r.once.remove(r.escaped)
	r.out.Held -= n
	r.prefix = r.prefix[:0]
	return r.add(&r.sticky, value)
}

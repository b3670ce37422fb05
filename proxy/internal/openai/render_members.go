package openai

import (
	"bytes"
	"slices"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
)

// maxMembers is the maximum number of extra members of one object. Others are dropped.
const maxMembers = 64

// maxSticky is the maximum length of a value that is repeated in every chunk.
const maxSticky = 256

// members holds the extra members of one object, in the order in which their names first appeared. Its memory is
// reused.
type members struct {
	list []member
	size int // bytes of names and values
}

// member is one extra member. Its name and value are JSON, the name without quotes.
//
// The value of a growing array (mergeList) or string (mergeText) lacks the brackets or quotes. A growing object
// (mergeObject) has its members in sub, and value is the object that came first.
type member struct {
	name  []byte
	rule  mergeRule
	value []byte
	sub   members
}

// mergeRule determines how another value of the same member is added.
type mergeRule uint8

const (
	mergeReplace mergeRule = iota // the last value wins
	mergeList                     // append arrays
	mergeText                     // concatenate strings
	mergeObject                   // apply the rule of each member
)

// ruleFor returns the rule for a member of the response, a choice or a message. parent is the extra member that
// contains it, empty if there is none.
func ruleFor(parent, name []byte) mergeRule {
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

// get returns the member with a name, or nil if there is none.
func (ms *members) get(name []byte) *member {
	for i := range ms.list {
		if bytes.Equal(ms.list[i].name, name) {
			return &ms.list[i]
		}
	}
	return nil
}

// remove removes a member if it exists, and returns its size.
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

// getOrAdd returns the member with a name and adds it if necessary. It returns nil if there are too many members.
func (ms *members) getOrAdd(name []byte) (_ *member, isNew bool) {
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

// add merges a member into the object. name is escaped, value is compact JSON; both are copied. It returns the change
// in size, and false if there are too many members.
func (ms *members) add(parent, name, value []byte) (size int, ok bool) {
	e, isNew := ms.getOrAdd(name)
	if e == nil {
		return 0, false
	}
	before := len(e.value)
	if isNew {
		before = -len(name)
	}
	rule := ruleFor(parent, name)
	switch {
	case rule != mergeReplace && !isNew && string(value) == "null":
		// null leaves the collected value unchanged.
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
		// An object is split into its members only when it arrives a second time, which is rare.
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
		return 0 // cannot happen, the value has been checked
	}
	for v := d.Root().First(); v.Exists(); v = v.Next() {
		n, _ := e.sub.add(e.name, v.Name().Inside(), v.Raw())
		size += n
	}
	return size
}

// appendTo appends the members, each with a comma before it.
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

// dropComma removes the comma before an object's first member, at from. It does nothing if there are no members.
func dropComma(dst []byte, from int) []byte {
	if len(dst) == from {
		return dst
	}
	copy(dst[from:], dst[from+1:])
	return dst[:len(dst)-1]
}

// isScalar reports whether a JSON value is neither an object nor an array.
func isScalar(value []byte) bool { return value[0] != '{' && value[0] != '[' }

// add adds a member, whose name is in r.escaped, to one of the objects of the response.
func (r *Renderer) add(to *members, value []byte) bool {
	size, ok := to.add(nil, r.escaped, value)
	r.out.Held += size
	return ok
}

// fingerprint is the name of a member that every response of OpenAI's has, and that some clients require.
const fingerprint = "system_fingerprint"

// appendFingerprint appends a fingerprint of null unless ms, the extra members of the response, has one.
func appendFingerprint(dst []byte, ms *members) []byte {
	if ms.get([]byte(fingerprint)) != nil {
		return dst
	}
	return append(dst, `,"system_fingerprint":null`...)
}

// addToResponse adds an extra member of the response, whose name is in r.escaped. In a stream a short scalar, for
// example system_fingerprint, applies to the whole response and is repeated in every chunk from then on. Any other
// value is written once.
func (r *Renderer) addToResponse(value []byte) bool {
	if !r.stream || !isScalar(value) || len(value) > maxSticky {
		if r.stream && string(r.escaped) == fingerprint {
			return true // every chunk has one already
		}
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

package response

import (
	"bytes"
	"slices"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// maxMembers is how many extra members one object may have; what comes beyond that is dropped.
const maxMembers = 64

// maxSticky is the length of the longest value that is repeated in every chunk.
const maxSticky = 256

// members is extra members of one object, in the order in which their names came first. Memory is kept from one use to
// the next.
type members struct {
	list []member
	size int // bytes of names and values
}

// member is one extra member. Name and value are as they stand in JSON, the name without quotes.
//
// Of a list that grows (joinList) the value is the inside; of a text that grows (joinText) likewise. An object that grows
// (joinObject) has its members in sub, and value is what came first.
type member struct {
	name  []byte
	rule  join
	value []byte
	sub   members
}

// join is what happens when a member comes again.
type join uint8

const (
	joinReplace join = iota // the last one wins
	joinList                // lists append
	joinText                // strings concatenate
	joinObject              // each member by its own rule
)

// joinOf is the rule for a member of the answer, a choice or a message; parent is the object that it is in, if that is an
// extra member itself.
func joinOf(parent, name []byte) join {
	switch string(parent) {
	case "":
		switch string(name) {
		case "annotations", "citations", "images":
			return joinList
		case "logprobs", "audio", "function_call":
			return joinObject
		}
	case "logprobs":
		switch string(name) {
		case "content", "refusal":
			return joinList
		}
	case "audio":
		switch string(name) {
		case "data", "transcript":
			return joinText
		}
	case "function_call":
		if string(name) == "arguments" {
			return joinText
		}
	}
	return joinReplace
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

// remove takes a member out, if it is there. It returns how many bytes fewer are held.
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
		e.name, e.value, e.rule = append(e.name[:0], name...), trim(e.value), joinReplace
		e.sub.reset()
	default:
		ms.list = append(ms.list, member{name: append([]byte(nil), name...)})
	}
	return &ms.list[n], true
}

// add joins a member to the object. name is escaped, value is compact JSON; both are copied. It returns how many bytes
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
	rule := joinOf(parent, name)
	switch {
	case rule != joinReplace && !isNew && string(value) == "null":
		// What has been collected is worth more than the news that there is nothing more.
	case rule == joinList && value[0] == '[':
		if e.rule != joinList {
			e.rule, e.value = joinList, e.value[:0]
		}
		if inside := value[1 : len(value)-1]; len(inside) > 0 {
			if len(e.value) > 0 {
				e.value = append(e.value, ',')
			}
			e.value = append(e.value, inside...)
		}
	case rule == joinText && value[0] == '"':
		if e.rule != joinText {
			e.rule, e.value = joinText, e.value[:0]
		}
		e.value = append(e.value, value[1:len(value)-1]...)
	case rule == joinObject && value[0] == '{' && len(e.value) > 0 && e.value[0] == '{':
		// An object is taken apart when the second one comes: in a stream there is none.
		if e.rule != joinObject {
			e.rule = joinObject
			size = e.addMembers(e.value)
		}
		size += e.addMembers(value)
	default:
		e.rule, e.value = joinReplace, append(e.value[:0], value...)
	}
	size += len(e.value) - before
	ms.size += size
	return size, true
}

// addMembers joins the members of an object to those of e.
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
		case joinList:
			dst = append(append(append(dst, '['), e.value...), ']')
		case joinText:
			dst = append(append(append(dst, '"'), e.value...), '"')
		case joinObject:
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

// Reserved reports whether a name belongs to the host: either it is a member that the host writes into objects of this
// scope, or one that a client would take for a part of the answer's structure wherever it stands.
func Reserved(scope abi.Scope, name []byte) bool {
	switch string(name) {
	case "error", "choices", "usage", "delta", "message", "finish_reason", "native_finish_reason":
		return true
	}
	switch scope {
	case abi.ScopeAnswer:
		switch string(name) {
		case "id", "object", "created", "model":
			return true
		}
	case abi.ScopeChoice:
		return string(name) == "index"
	case abi.ScopeMessage:
		switch string(name) {
		case "role", "content", "refusal", "tool_calls", "reasoning_content", "reasoning_details":
			return true
		}
	case abi.ScopeTool:
		switch string(name) {
		case "index", "id", "type", "function":
			return true
		}
	case abi.ScopeUsage:
		switch string(name) {
		case "prompt_tokens", "completion_tokens", "total_tokens", "estimated",
			promptDetails, completionDetails,
			promptDetails + ".", promptDetails + ".cached_tokens", promptDetails + ".cache_creation_tokens", promptDetails + ".audio_tokens",
			completionDetails + ".", completionDetails + ".reasoning_tokens", completionDetails + ".audio_tokens":
			return true
		}
	}
	return false
}

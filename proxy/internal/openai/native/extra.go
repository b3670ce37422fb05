package native

import (
	"bytes"
	"hash/maphash"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// memberName returns the name of a member. It is valid until the next call.
func (r *Reader) memberName(v jsondoc.Value) []byte {
	n := v.Name()
	if !n.Escaped() {
		return n.Inside()
	}
	r.name = n.AppendText(r.name[:0])
	return r.name
}

// passesThrough reports whether an unknown member is passed on. Reserved names, padding and empty values are not.
func (r *Reader) passesThrough(scope abi.Scope, name []byte, v jsondoc.Value) bool {
	switch string(name) {
	case "", "obfuscation", "p":
		return false
	}
	if len(name) > abi.MaxName || response.Reserved(scope, name) {
		return false
	}
	switch v.Kind() {
	case jsondoc.Null:
		return false
	case jsondoc.Object, jsondoc.Array:
		if !v.First().Exists() {
			return false
		}
	}
	return !r.loose || r.isStrict(v)
}

// isStrict reports whether a value in a document that is not strict JSON is strict JSON itself.
func (r *Reader) isStrict(v jsondoc.Value) bool {
	_, err := jsondoc.AppendCompact(nil, v.Raw())
	return err == nil
}

// responseExtras passes on unknown members of the response. Many providers repeat them in every chunk, so they are
// passed on only when they change.
func (r *Reader) responseExtras(b *response.Batch, root jsondoc.Value, whole bool) {
	for v := root.First(); v.Exists(); v = v.Next() {
		name := r.memberName(v)
		switch string(name) {
		case "x_groq":
			continue // has the request's id, which is also a header, and a copy of the usage, even for clients that want none
		case "prompt_filter_results":
			if !whole {
				continue // Azure sends it in a chunk without choices, which clients take for the usage chunk
			}
		}
		if r.passesThrough(abi.ScopeAnswer, name, v) {
			if value := r.repeats.unsent(name, v); value != nil {
				b.Extra(abi.ScopeAnswer, 0, 0, name, value)
			}
		}
	}
}

// choiceExtras passes on unknown members of a choice.
func (r *Reader) choiceExtras(b *response.Batch, ci int32, choice jsondoc.Value) {
	for v := choice.First(); v.Exists(); v = v.Next() {
		name := r.memberName(v)
		if string(name) == "logprobs" && !v.Get("content").First().Exists() && !v.Get("refusal").First().Exists() {
			continue
		}
		if r.passesThrough(abi.ScopeChoice, name, v) {
			b.Extra(abi.ScopeChoice, ci, 0, name, v.Raw())
		}
	}
}

// messageExtras passes on unknown members of a delta or message.
func (r *Reader) messageExtras(b *response.Batch, ci int32, body jsondoc.Value) {
	for v := body.First(); v.Exists(); v = v.Next() {
		name := r.memberName(v)
		switch string(name) {
		case "reasoning", "thinking_blocks":
			continue // emitted as reasoning
		}
		if r.passesThrough(abi.ScopeMessage, name, v) {
			b.Extra(abi.ScopeMessage, ci, 0, name, v.Raw())
		}
	}
}

// toolExtras passes on unknown members of a tool call.
func (r *Reader) toolExtras(b *response.Batch, ci, key int32, entry jsondoc.Value) {
	for v := entry.First(); v.Exists(); v = v.Next() {
		name := r.memberName(v)
		if string(name) != "custom" && r.passesThrough(abi.ScopeTool, name, v) {
			b.Extra(abi.ScopeTool, ci, key, name, v.Raw())
		}
	}
}

// usageExtras passes on unknown members of the usage object, or of one of the objects in it.
func (r *Reader) usageExtras(b *response.Batch, prefix string, object jsondoc.Value) {
	for v := object.First(); v.Exists() && object.Kind() == jsondoc.Object; v = v.Next() {
		name := r.memberName(v)
		switch string(name) {
		case "prompt_cache_hit_tokens", "prompt_cache_miss_tokens", "input_tokens", "output_tokens":
			continue // emitted as usage counts
		case "cached_tokens", "reasoning_tokens", "cache_write_tokens", "cache_creation_token_details":
			continue
		}
		r.unescaped = append(append(r.unescaped[:0], prefix...), name...)
		if r.passesThrough(abi.ScopeUsage, r.unescaped, v) {
			b.Extra(abi.ScopeUsage, 0, 0, r.unescaped, v.Raw())
		}
	}
}

// repeats records the members of the response that have been passed on.
type repeats struct{ list []repeat }

type repeat struct {
	name, value uint64 // hashes
	elements    int    // number of elements passed on, if the value is an array
}

var repeatSeed = maphash.MakeSeed()

// maxRepeats is the number of members to record. Others are passed on each time.
const maxRepeats = 32

func (m *repeats) reset() { m.list = m.list[:0] }

// unsent returns the new part of a member: all of it, nothing, or the new elements of an array that has grown.
func (m *repeats) unsent(name []byte, v jsondoc.Value) []byte {
	raw := v.Raw()
	n, sum := maphash.Bytes(repeatSeed, name), maphash.Bytes(repeatSeed, raw)
	for i := range m.list {
		e := &m.list[i]
		if e.name != n {
			continue
		}
		if e.value == sum {
			return nil
		}
		if v.Kind() == jsondoc.Array && e.elements > 0 {
			if rest, ok := newElements(v, e); ok {
				e.value, e.elements = sum, v.Len()
				return rest
			}
		}
		*e = repeat{n, sum, elementCount(v)}
		return raw
	}
	if len(m.list) < maxRepeats {
		m.list = append(m.list, repeat{n, sum, elementCount(v)})
	}
	return raw
}

func elementCount(v jsondoc.Value) int {
	if v.Kind() != jsondoc.Array {
		return 0
	}
	return v.Len()
}

// newElements returns the elements of an array after those in e. It reports false if the array does not start with
// those, or has no others.
func newElements(v jsondoc.Value, e *repeat) ([]byte, bool) {
	raw, count := v.Raw(), 0
	for element := v.First(); element.Exists(); element = element.Next() {
		if count++; count < e.elements {
			continue
		}
		end := element.Offset() + len(element.Raw()) - v.Offset()
		if maphash.Bytes(repeatSeed, append(bytes.Clone(raw[:end]), ']')) != e.value {
			return nil, false
		}
		rest := bytes.TrimLeft(raw[end:], " \t\r\n,")
		return append([]byte{'['}, rest...), len(rest) > 1
	}
	return nil, false
}

package native

import (
	"bytes"
	"hash/maphash"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// memberName is the name of a member. It is valid until the next call.
func (r *Reader) memberName(v jsondoc.Value) []byte {
	n := v.Name()
	if !n.Escaped() {
		return n.Inside()
	}
	r.name = n.AppendText(r.name[:0])
	return r.name
}

// passes reports whether a member that this package does not know is passed on: not reserved names, not
// padding, and no empty values.
func (r *Reader) passes(scope abi.Scope, name []byte, v jsondoc.Value) bool {
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
	return !r.loose || r.strict(v)
}

// strict reports whether a value of a document that is not strict JSON is strict JSON itself.
func (r *Reader) strict(v jsondoc.Value) bool {
	_, err := jsondoc.AppendCompact(nil, v.Raw())
	return err == nil
}

// responseExtras passes on the members of the response. Many providers repeat them in every chunk: they are passed on when
// they change.
func (r *Reader) responseExtras(b *response.Batch, root jsondoc.Value, whole bool) {
	for v := root.First(); v.Exists(); v = v.Next() {
		name := r.memberName(v)
		switch string(name) {
		case "x_groq":
			continue // the request's id, which is a header too, and the usage again, also for clients that asked for none
		case "prompt_filter_results":
			if !whole {
				continue // Azure sends it in a chunk without choices, which clients mistake for the usage chunk
			}
		}
		if r.passes(abi.ScopeAnswer, name, v) {
			if value := r.repeats.unsent(name, v); value != nil {
				b.Extra(abi.ScopeAnswer, 0, 0, name, value)
			}
		}
	}
}

// choiceExtras passes on the members of a choice.
func (r *Reader) choiceExtras(b *response.Batch, ci int32, choice jsondoc.Value) {
	for v := choice.First(); v.Exists(); v = v.Next() {
		name := r.memberName(v)
		if string(name) == "logprobs" && !v.Get("content").First().Exists() && !v.Get("refusal").First().Exists() {
			continue
		}
		if r.passes(abi.ScopeChoice, name, v) {
			b.Extra(abi.ScopeChoice, ci, 0, name, v.Raw())
		}
	}
}

// messageExtras passes on the members of a delta or message.
func (r *Reader) messageExtras(b *response.Batch, ci int32, body jsondoc.Value) {
	for v := body.First(); v.Exists(); v = v.Next() {
		name := r.memberName(v)
		switch string(name) {
		case "reasoning", "thinking_blocks":
			continue // emitted under the OpenAI API's names
		}
		if r.passes(abi.ScopeMessage, name, v) {
			b.Extra(abi.ScopeMessage, ci, 0, name, v.Raw())
		}
	}
}

// toolExtras passes on the members of a tool call.
func (r *Reader) toolExtras(b *response.Batch, ci, key int32, entry jsondoc.Value) {
	for v := entry.First(); v.Exists(); v = v.Next() {
		name := r.memberName(v)
		if string(name) != "custom" && r.passes(abi.ScopeTool, name, v) {
			b.Extra(abi.ScopeTool, ci, key, name, v.Raw())
		}
	}
}

// usageExtras passes on the members of the usage object, or of one of the objects in it.
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
		if r.passes(abi.ScopeUsage, r.unescaped, v) {
			b.Extra(abi.ScopeUsage, 0, 0, r.unescaped, v.Raw())
		}
	}
}

// repeats remembers the members of the response that have been passed on.
type repeats struct{ list []repeat }

type repeat struct {
	name, value uint64 // hashes
	elements    int    // of a list: how many were passed on
}

var repeatSeed = maphash.MakeSeed()

// maxRepeats is how many members are remembered. What is not remembered is passed on each time.
const maxRepeats = 32

func (m *repeats) reset() { m.list = m.list[:0] }

// unsent returns what is new in a member: all of it, nothing, or the rest of a list that has grown.
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
			if rest, ok := grown(v, e); ok {
				e.value, e.elements = sum, v.Len()
				return rest
			}
		}
		*e = repeat{n, sum, elements(v)}
		return raw
	}
	if len(m.list) < maxRepeats {
		m.list = append(m.list, repeat{n, sum, elements(v)})
	}
	return raw
}

func elements(v jsondoc.Value) int {
	if v.Kind() != jsondoc.Array {
		return 0
	}
	return v.Len()
}

// grown returns what a list holds beyond what was passed on of it, if it begins with that.
func grown(v jsondoc.Value, e *repeat) ([]byte, bool) {
	raw, at := v.Raw(), 0
	for element := v.First(); element.Exists(); element = element.Next() {
		if at++; at < e.elements {
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

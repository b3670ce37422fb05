package clientapi

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// Limits of hashing, so that its cost does not grow with the request.
const (
	maxHashedText     = 1 << 10 // bytes per text; of a longer text the length, the start and the end are hashed
	maxHashedTexts    = 64      // texts of the system prompt and of each message
	maxHashedTools    = 128     // names of tools
	maxHashedMessages = 32      // messages up to the first user message
)

// ConversationID returns the ID of the request's conversation: prompt_cache_key, or the conversation of a Responses
// request. It is absent if the body has none. member is the name of the member.
func ConversationID(d *jsondoc.Doc) (id jsondoc.Value, member string) {
	if v := d.Root().Get("prompt_cache_key"); len(v.Inside()) > 0 {
		return v, "prompt_cache_key"
	}
	v := d.Root().Get("conversation")
	if v.Kind() == jsondoc.Object {
		v = v.Get("id")
	}
	if len(v.Inside()) > 0 {
		return v, "conversation"
	}
	return jsondoc.Value{}, ""
}

// UserID returns the ID of the client's end user: user, metadata.user_id of Messages, or safety_identifier. It is
// absent if the body has none. member is the path of the member.
func UserID(d *jsondoc.Doc) (id jsondoc.Value, member string) {
	root := d.Root()
	if v := root.Get("user"); len(v.Inside()) > 0 {
		return v, "user"
	}
	if v := root.Get("metadata").Get("user_id"); len(v.Inside()) > 0 {
		return v, "metadata.user_id"
	}
	if v := root.Get("safety_identifier"); len(v.Inside()) > 0 {
		return v, "safety_identifier"
	}
	return jsondoc.Value{}, ""
}

// HashConversation hashes the common start of all requests of a conversation: the system prompt, the names of the
// tools, and the messages up to the first user message. Only texts are included, because clients move other members,
// such as cache_control, from turn to turn. ok is false if the request has none of these. HashConversation does not
// allocate, and its work is bounded.
func HashConversation(d *jsondoc.Doc, seed uint64) (hash uint64, ok bool) {
	// Each part has a separate hash, so that the order of the request's members does not matter.
	var system, tools, messages digest
	system.reset(seed)
	tools.reset(seed + 1)
	messages.reset(seed + 2)
	for m := d.Root().First(); m.Exists(); m = m.Next() {
		switch name := m.Name(); string(name.Inside()) { // clients do not escape these names
		case "system", "instructions", "systemInstruction", "system_instruction":
			system.texts(m)
		case "tools", "functions":
			tools.toolNames(m)
		case "messages", "contents", "input":
			messages.messages(m)
		case "prompt", "query":
			messages.texts(m)
		}
	}
	if system.empty && tools.empty && messages.empty {
		return 0, false
	}
	var sums [24]byte
	binary.BigEndian.PutUint64(sums[:], system.Sum64())
	binary.BigEndian.PutUint64(sums[8:], tools.Sum64())
	binary.BigEndian.PutUint64(sums[16:], messages.Sum64())
	system.reset(seed)
	_, _ = system.Write(sums[:])
	return system.Sum64(), true
}

// HashText hashes a text, such as an ID.
func HashText(text []byte, seed uint64) uint64 {
	var d xxhash.Digest
	d.ResetWithSeed(seed)
	_, _ = d.Write(text)
	return d.Sum64()
}

// digest hashes the texts of a part of a request, as written in the body. Its writes cannot fail.
type digest struct {
	xxhash.Digest
	left  int // number of texts that may still be hashed
	empty bool
}

func (d *digest) reset(seed uint64) {
	d.ResetWithSeed(seed)
	d.left, d.empty = maxHashedTexts, true
}

// text hashes a text and its length, so that texts with different boundaries have different hashes.
func (d *digest) text(p []byte) {
	var length [8]byte
	binary.BigEndian.PutUint64(length[:], uint64(len(p)))
	_, _ = d.Write(length[:])
	if len(p) > maxHashedText {
		_, _ = d.Write(p[:maxHashedText/2])
		p = p[len(p)-maxHashedText/2:]
	}
	_, _ = d.Write(p)
	d.empty = false
}

// texts hashes the strings of a value, except members that are not content.
func (d *digest) texts(v jsondoc.Value) {
	if d.left == 0 {
		return
	}
	switch v.Kind() {
	case jsondoc.String:
		d.left--
		d.text(v.Inside())
	case jsondoc.Array, jsondoc.Object:
		for m := v.First(); m.Exists() && d.left > 0; m = m.Next() {
			switch string(m.Name().Inside()) {
			case "type", "role", "id", "status", "cache_control":
			default:
				d.texts(m)
			}
		}
	}
}

// toolNames hashes the names of tools. It ignores the rest of their definitions, whose order may differ between
// requests.
func (d *digest) toolNames(list jsondoc.Value) {
	d.left = maxHashedTools
	for t := list.First(); t.Exists() && d.left > 0; t = t.Next() {
		d.left--
		for m := t.First(); m.Exists(); m = m.Next() {
			switch string(m.Name().Inside()) {
			case "name":
				d.text(m.Inside())
			case "function":
				if name := m.Get("name"); name.Exists() {
					d.text(name.Inside())
				}
			case "functionDeclarations", "function_declarations": // Gemini
				for f := m.First(); f.Exists() && d.left > 0; f = f.Next() {
					d.left--
					d.text(f.Get("name").Inside())
				}
			}
		}
	}
}

// messages hashes messages up to the first user message.
func (d *digest) messages(v jsondoc.Value) {
	if v.Kind() != jsondoc.Array { // a single text, or a single content in the Gemini API
		d.texts(v)
		return
	}
	n := 0
	for m := v.First(); m.Exists() && n < maxHashedMessages; m = m.Next() {
		n++
		d.left = maxHashedTexts
		d.texts(m)
		role := m.Get("role")
		if role.Is("user") || m.Kind() != jsondoc.Object || !role.Exists() && !m.Get("type").Exists() {
			return
		}
	}
}

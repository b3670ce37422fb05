package responses

import "github.com/sluice-gateway/sluice/proxy/internal/jsondoc"

// Held is what a WebSocket holds of a response that is not stored, so that later requests over it can continue the
// response.
type Held struct {
	Input   []byte // the items of the request, with references resolved: JSON objects separated by commas
	Output  []byte // the items of the response, as AppendReplayed writes them
	Members []byte // members that the continuing request inherits unless it has them: "name":value pairs separated by commas
}

// Hold stores a response for a socket of a client, and reports whether there is room for it. The ID of a socket is one
// that no client has.
func (m *Memory) Hold(client, socket, id string, h Held) bool {
	k := &storedResponse{body: h.Members, input: h.Input, output: h.Output}
	return m.cache.Put(client, []string{memoryKey(socket, id)}, k, len(h.Members)+len(h.Input)+len(h.Output), maxEntry, func(*storedResponse, int) bool { return true })
}

// Held returns what Hold has stored. It must not be modified.
func (m *Memory) Held(socket, id string) (Held, bool) {
	k, ok := m.get(socket, id)
	if !ok {
		return Held{}, false
	}
	return Held{Input: k.input, Output: k.output, Members: k.body}, true
}

// Drop removes what Hold has stored.
func (m *Memory) Drop(socket, id string) { m.cache.Delete(memoryKey(socket, id)) }

// AppendReplayed appends the items of a response's output as the input of a request, to a provider that has not stored
// the response: JSON objects separated by commas. Without its encrypted content, reasoning could not be replayed, so it
// is left out. So are the IDs of the other items, because a provider would look them up.
func AppendReplayed(dst []byte, output jsondoc.Value) []byte {
	begin := len(dst)
	for item := output.First(); item.Exists(); item = item.Next() {
		typ := item.Get("type")
		if typ.Is("reasoning") && len(item.Get("encrypted_content").Inside()) == 0 {
			continue
		}
		own := typ.Is("reasoning") || typ.Is("message") || typ.Is("function_call") || typ.Is("custom_tool_call")
		dst = append(separate(dst, begin), '{')
		first := len(dst)
		for m := item.First(); m.Exists(); m = m.Next() {
			if own && m.Name().Is("id") {
				continue
			}
			dst = append(append(separate(dst, first), m.Name().Raw()...), ':')
			dst = append(dst, m.Raw()...)
		}
		dst = append(dst, '}')
	}
	return dst
}

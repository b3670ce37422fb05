package responses

import (
	"bytes"
	"strings"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/fairlru"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
)

// The bounds of a Memory where its options have none.
const (
	DefaultMaxSize = 64 << 20
	DefaultTTL     = time.Hour
)

// maxEntry is how much of a Memory one response may take at most, as a share of the whole.
const maxEntry = 10

// Memory is a Store in the memory of the process: it keeps responses with the items of their requests, by client and
// ID, bounded in bytes and in time as package fairlru describes. Of responses of providers that speak the API themselves it
// knows which target they came from.
//
// It is safe for concurrent use.
type Memory struct{ cache *fairlru.Cache[*kept] }

// kept is a response. It is immutable.
type kept struct {
	body   []byte // the response object
	input  []byte // the items of the request, all that it referred to included: JSON objects with commas between
	output []byte // the items of the response, of body
	target string // where a provider keeps the response, the target; the rest is empty then
}

// NewMemory returns a memory of at most maxSize bytes; 0 stands for the default, as for ttl. now is nil for time.Now.
func NewMemory(maxSize int, ttl time.Duration, now func() time.Time) *Memory {
	if maxSize <= 0 {
		maxSize = DefaultMaxSize
	}
	if ttl <= 0 {
		ttl = DefaultTTL
	}
	return &Memory{cache: fairlru.New[*kept](maxSize, ttl, now)}
}

// Size is how many bytes are in use.
func (m *Memory) Size() int { return m.cache.Size() }

// memoryKey is the key of a response. No name of a client has a line feed.
func memoryKey(client, id string) string { return client + "\n" + id }

// put keeps a response, in place of one with the same ID.
func (m *Memory) put(client, id string, k *kept) {
	key := memoryKey(client, id)
	m.cache.Put(client, []string{key}, k, len(k.body)+len(k.input)+len(k.target), maxEntry, func(*kept, int) bool { return true })
}

// get returns a response that the memory itself has.
func (m *Memory) get(client, id string) (*kept, bool) {
	k, ok := m.cache.Latest(memoryKey(client, id))
	if !ok || k.body == nil {
		return nil, false
	}
	return k, true
}

// keep stores the response that is complete: before the client sees its end, since the next request may refer to it.
func (r *Renderer) keep(usage *response.Usage) {
	if r.asked.input == nil {
		return
	}
	k := &kept{body: r.appendResponse(nil, r.status(), usage, nil, true), input: r.asked.input}
	k.output = r.appendOutput(nil)
	if at := bytes.Index(k.body, k.output); at >= 0 {
		k.output = k.body[at : at+len(k.output) : at+len(k.output)]
	}
	r.memory.put(r.client, string(r.appendID(nil)), k)
}

// NoteTarget remembers which target a client's response came from that its provider may keep.
func (m *Memory) NoteTarget(client, id, target string) {
	if id != "" {
		m.put(client, id, &kept{target: target})
	}
}

// Target returns the target that a client's response came from; "" if it is not known, or the memory has the response itself.
func (m *Memory) Target(client, id string) string {
	k, ok := m.cache.Latest(memoryKey(client, id))
	if !ok {
		return ""
	}
	return k.target
}

// AppendConversation implements Store.
func (m *Memory) AppendConversation(dst []byte, client, response string) ([]byte, bool) {
	k, ok := m.get(client, response)
	if !ok {
		return dst, false
	}
	from := len(dst)
	dst = append(dst, k.input...)
	if len(k.output) > 0 {
		dst = append(separate(dst, from), k.output...)
	}
	return dst, true
}

// AppendItem implements Store.
func (m *Memory) AppendItem(dst []byte, client, item string) ([]byte, bool) {
	k, ok := m.get(client, responseOf(item))
	if !ok {
		return dst, false
	}
	var d jsondoc.Doc
	if d.Parse(k.body, jsondoc.Limits{}) != nil {
		return dst, false
	}
	for v := d.Root().Get("output").First(); v.Exists(); v = v.Next() {
		if v.Get("id").Is(item) {
			return append(dst, v.Raw()...), true
		}
	}
	return dst, false
}

// AppendResponse appends the body of GET /v1/responses/{id}.
func (m *Memory) AppendResponse(dst []byte, client, id string) ([]byte, bool) {
	k, ok := m.get(client, id)
	if !ok {
		return dst, false
	}
	return append(dst, k.body...), true
}

// AppendDeleted forgets a response, and appends the body of DELETE /v1/responses/{id}.
func (m *Memory) AppendDeleted(dst []byte, client, id string) ([]byte, bool) {
	if _, ok := m.get(client, id); !ok || !m.cache.Delete(memoryKey(client, id)) {
		return dst, false
	}
	dst = append(append(dst, `{"id":"`...), id...)
	return append(dst, `","object":"response","deleted":true}`...), true
}

// Page says which items of an input a client asks for. The zero value is the latest 20.
type Page struct {
	After     string // the id of the item before the first one; "" for the beginning
	Limit     int    // 1 to 100; 0 is 20
	Ascending bool   // in the order of the conversation, not from its end
}

// AppendInputItems appends the body of GET /v1/responses/{id}/input_items. Items without an id have one by their place.
func (m *Memory) AppendInputItems(dst []byte, client, id string, p Page) ([]byte, bool) {
	const standard, most = 20, 100
	k, ok := m.get(client, id)
	if !ok {
		return dst, false
	}
	var d jsondoc.Doc
	if d.Parse(append(append([]byte{'['}, k.input...), ']'), jsondoc.Limits{}) != nil {
		return dst, false
	}
	if p.Limit <= 0 {
		p.Limit = standard
	}
	p.Limit = min(p.Limit, most)
	var items []jsondoc.Value
	for v := d.Root().First(); v.Exists(); v = v.Next() {
		items = append(items, v)
	}
	itemID := func(i int) string {
		if v := items[i].Get("id"); v.Kind() == jsondoc.String {
			return v.Text()
		}
		return inputID(id, i)
	}
	at, step, left := 0, 1, len(items)
	if !p.Ascending {
		at, step = len(items)-1, -1
	}
	for skip := p.After != ""; skip && left > 0; at, left = at+step, left-1 {
		skip = itemID(at) != p.After
	}
	dst = append(dst, `{"object":"list","data":[`...)
	first, last := "", ""
	for n := 0; n < p.Limit && left > 0; n, at, left = n+1, at+step, left-1 {
		if last = itemID(at); n == 0 {
			first = last
		} else {
			dst = append(dst, ',')
		}
		dst = appendInputItem(dst, items[at], last)
	}
	dst = appendID(append(dst, `],"first_id":`...), first)
	dst = appendID(append(dst, `,"last_id":`...), last)
	if left > 0 {
		return append(dst, `,"has_more":true}`...), true
	}
	return append(dst, `,"has_more":false}`...), true
}

// inputID is the id of an item of a response's input that came without one.
func inputID(response string, i int) string {
	var r Renderer
	copy(r.id[:], strings.TrimPrefix(response, responsePrefix))
	return string(r.appendNumbered([]byte("in_"), i))
}

// appendInputItem appends an item with its id, and with the type that a message may leave out.
func appendInputItem(dst []byte, v jsondoc.Value, id string) []byte {
	dst = appendID(append(dst, `{"id":`...), id)
	if !v.Get("type").Exists() {
		dst = append(dst, `,"type":"message"`...)
	}
	for m := v.First(); m.Exists(); m = m.Next() {
		if !m.Name().Is("id") {
			dst = append(append(append(append(dst, ','), m.Name().Raw()...), ':'), m.Raw()...)
		}
	}
	return append(dst, '}')
}

// appendID appends an id as a JSON value, null if there is none.
func appendID(dst []byte, id string) []byte {
	if id == "" {
		return append(dst, "null"...)
	}
	return append(jsondoc.AppendEscaped(append(dst, '"'), []byte(id)), '"')
}

package responses

import (
	"bytes"
	"strings"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/fairlru"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
)

// The default bounds of a Memory.
const (
	DefaultMaxSize = 64 << 20
	DefaultTTL     = time.Hour
)

// maxEntry limits the size of one response to a tenth of the Memory's.
const maxEntry = 10

// Memory is a Store in process memory. It keeps responses with the items of their requests by client and ID, bounded in
// bytes and in time as package fairlru describes.
//
// It is safe for concurrent use.
type Memory struct {
	cache *fairlru.Cache[*storedResponse]
}

// storedResponse is a response in a Memory. It is immutable.
type storedResponse struct {
	body   []byte // the response object
	input  []byte // the items of the request, with references resolved: JSON objects separated by commas
	output []byte // the items of the response, a part of body
}

// NewMemory returns a memory of at most maxSize bytes, whose entries expire after ttl. 0 means the default for both. A
// nil now means time.Now.
func NewMemory(maxSize int, ttl time.Duration, now func() time.Time) *Memory {
	if maxSize <= 0 {
		maxSize = DefaultMaxSize
	}
	if ttl <= 0 {
		ttl = DefaultTTL
	}
	return &Memory{cache: fairlru.New[*storedResponse](maxSize, ttl, now)}
}

// Size returns the number of bytes in use.
func (m *Memory) Size() int { return m.cache.Size() }

// memoryKey returns the cache key of a response. Names of clients contain no line feed.
func memoryKey(client, id string) string { return client + "\n" + id }

// put stores a response, replacing one with the same ID.
func (m *Memory) put(client, id string, k *storedResponse) {
	key := memoryKey(client, id)
	m.cache.Put(client, []string{key}, k, len(k.body)+len(k.input), maxEntry, func(*storedResponse, int) bool { return true })
}

// get returns a response.
func (m *Memory) get(client, id string) (*storedResponse, bool) {
	return m.cache.Latest(memoryKey(client, id))
}

// storeResponse stores the complete response. It must be called before the client receives the end of the response,
// because the client's next request may refer to it.
func (r *renderer) storeResponse(usage *response.Usage) {
	if r.request.input == nil {
		return
	}
	k := &storedResponse{body: r.appendResponse(nil, r.status(), usage, nil, true), input: r.request.input}
	k.output = r.appendOutput(nil)
	if at := bytes.Index(k.body, k.output); at >= 0 {
		k.output = k.body[at : at+len(k.output) : at+len(k.output)]
	}
	r.memory.put(r.client, string(r.appendID(nil)), k)
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
	k, ok := m.get(client, responseID(item))
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

// AppendDeleted deletes a response, and appends the body of DELETE /v1/responses/{id}.
func (m *Memory) AppendDeleted(dst []byte, client, id string) ([]byte, bool) {
	if !m.cache.Delete(memoryKey(client, id)) {
		return dst, false
	}
	dst = append(append(dst, `{"id":"`...), id...)
	return append(dst, `","object":"response","deleted":true}`...), true
}

// Page selects items of a response's input. The zero value selects the latest 20.
type Page struct {
	After     string // ID of the item that precedes the page; "" for the first page
	Limit     int    // number of items, 1 to 100; 0 means 20
	Ascending bool   // in the order of the conversation instead of latest first
}

// AppendInputItems appends the body of GET /v1/responses/{id}/input_items. Items without an ID get one from their
// index.
func (m *Memory) AppendInputItems(dst []byte, client, id string, p Page) ([]byte, bool) {
	const defaultLimit, maxLimit = 20, 100
	k, ok := m.get(client, id)
	if !ok {
		return dst, false
	}
	var d jsondoc.Doc
	if d.Parse(append(append([]byte{'['}, k.input...), ']'), jsondoc.Limits{}) != nil {
		return dst, false
	}
	if p.Limit <= 0 {
		p.Limit = defaultLimit
	}
	p.Limit = min(p.Limit, maxLimit)
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

// inputID returns the ID for an input item that has none.
func inputID(response string, i int) string {
	var r renderer
	copy(r.id[:], strings.TrimPrefix(response, responsePrefix))
	return string(r.appendNumbered([]byte("in_"), i))
}

// appendInputItem appends an item with its ID, and with the type if it is a message without one.
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

// appendID appends an ID as a JSON string, or null if it is empty.
func appendID(dst []byte, id string) []byte {
	if id == "" {
		return append(dst, "null"...)
	}
	return append(jsondoc.AppendEscaped(append(dst, '"'), []byte(id)), '"')
}

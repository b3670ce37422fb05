package thinking

import (
	"bytes"
	"container/list"
	"slices"
	"sync"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// The bounds of a Memory where its options have none.
const (
	DefaultMaxSize = 64 << 20
	DefaultTTL     = time.Hour
)

// maxSame is how many responses with the same call a Memory tells apart.
const maxSame = 4

// maxEntry is how much of a Memory one response may take at most, as a share of the whole.
const maxEntry = 32

// Memory remembers the reasoning of responses that call tools, by client and tool call. It is bounded in bytes and in time:
// what has been neither stored nor asked for within the TTL is dropped. Where the bytes do not suffice, a client that holds
// more than its share, one part of as many as there are clients, displaces what it has used least recently; else the
// least recently used of all goes.
type Memory struct {
	maxSize int
	ttl     time.Duration
	now     func() time.Time

	mu      sync.Mutex
	byCall  map[string][]*entry // by callKey, the latest last
	clients map[string]*client
	order   list.List // of *entry, the most recently used first
	size    int
	timer   *time.Timer // drops what is too old; runs while there is anything
}

// client is what is remembered for one client.
type client struct {
	order list.List // of *entry, the most recently used first
	size  int
}

// entry is what is remembered of one response's choice.
type entry struct {
	client       string
	calls        []string // keys of byCall
	thought      *thought
	size         int
	used         time.Time
	global, mine *list.Element
}

// thought is the reasoning of one choice. It is immutable.
type thought struct {
	provider string   // the configured one that it came from
	details  []byte   // a JSON array, or nil
	extras   [][]byte // extra_content of each call, a JSON value or nil
	said     string   // its reasoning_content
}

// NewMemory returns a memory of at most maxSize bytes; 0 stands for the default, as for ttl. now is nil for time.Now.
func NewMemory(maxSize int, ttl time.Duration, now func() time.Time) *Memory {
	if maxSize <= 0 {
		maxSize = DefaultMaxSize
	}
	if ttl <= 0 {
		ttl = DefaultTTL
	}
	if now == nil {
		now = time.Now
	}
	return &Memory{maxSize: maxSize, ttl: ttl, now: now, byCall: make(map[string][]*entry), clients: make(map[string]*client)}
}

// Size is how many bytes are in use.
func (m *Memory) Size() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.size
}

// callKey identifies a tool call, mostly: some providers number their calls anew in each response.
// No name of a client has a line feed, nor has an id or a tool's name: both are escaped.
func callKey(client string, id, name []byte) string {
	key := make([]byte, 0, len(client)+len(id)+len(name)+2)
	key = append(append(key, client...), '\n')
	key = append(append(key, id...), '\n')
	return string(append(key, name...))
}

// overhead is about what an entry takes besides its texts, and each of its calls.
const overhead = 256

// put remembers a thought for the calls with these keys, in the order of the thought's extras.
func (m *Memory) put(name string, calls []string, t *thought) {
	if t.details != nil {
		t.said = reasoningText(t.details) // here, and not by those who hold the lock and ask
	}
	e := &entry{client: name, calls: calls, thought: t}
	if e.size = e.weigh(); e.size > m.maxSize/maxEntry {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire()
	for _, key := range calls {
		same := m.byCall[key]
		for _, old := range slices.Clone(same) {
			if len(same) >= maxSame || old.thought.equals(t) {
				m.remove(old)
				same = m.byCall[key]
			}
		}
	}
	m.add(e)
	own := m.clients[name]
	for m.size > m.maxSize {
		oldest := m.order.Back()
		if own.order.Len() > 1 && own.size > m.maxSize/len(m.clients) {
			oldest = own.order.Back()
		}
		m.remove(oldest.Value.(*entry))
	}
}

// weigh returns about how many bytes the entry takes.
func (e *entry) weigh() int {
	n := overhead
	for _, key := range e.calls {
		n += len(key) + overhead
	}
	for _, extra := range e.thought.extras {
		n += len(extra)
	}
	return n + len(e.thought.details) + len(e.thought.said)
}

func (t *thought) equals(o *thought) bool {
	return t.provider == o.provider && bytes.Equal(t.details, o.details) && slices.EqualFunc(t.extras, o.extras, bytes.Equal)
}

// says reports whether reasoning is the reasoning_content of the response.
func (t *thought) says(reasoning []byte) bool {
	return len(reasoning) > 0 && t.said == string(reasoning)
}

// reasoningText returns the reasoning_content of a response with these details.
func reasoningText(details []byte) string {
	var d jsondoc.Doc
	if d.Parse(details, jsondoc.Limits{}) != nil {
		return ""
	}
	var text []byte
	for e := d.Root().First(); e.Exists(); e = e.Next() {
		text = e.Get("summary").AppendText(e.Get("text").AppendText(text))
	}
	return string(text)
}

// get returns what is remembered for a call from a provider that usable accepts, and the call's number among those of the
// response. Where several responses had the call, it is the latest of those with the reasoning that the client has kept:
// a conversation must not get the thoughts of another one. It is nil if there is none.
func (m *Memory) get(key string, usable func(provider string) bool, reasoning []byte) (t *thought, call int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire()
	var e *entry
	same := 0
	for _, c := range m.byCall[key] {
		if !usable(c.thought.provider) {
			continue
		}
		if same++; same == 1 {
			e = c
			continue
		}
		if same == 2 && !e.thought.says(reasoning) {
			e = nil
		}
		if c.thought.says(reasoning) {
			e = c
		}
	}
	if e == nil {
		return nil, 0
	}
	e.used = m.now()
	m.order.MoveToFront(e.global)
	m.clients[e.client].order.MoveToFront(e.mine)
	return e.thought, slices.Index(e.calls, key)
}

// add and the methods below need the lock.
func (m *Memory) add(e *entry) {
	c := m.clients[e.client]
	if c == nil {
		c = new(client)
		m.clients[e.client] = c
	}
	for _, key := range e.calls {
		m.byCall[key] = append(m.byCall[key], e)
	}
	e.used = m.now()
	e.global, e.mine = m.order.PushFront(e), c.order.PushFront(e)
	c.size += e.size
	m.size += e.size
	if m.timer == nil {
		m.timer = time.AfterFunc(m.ttl, m.sweep)
	}
}

func (m *Memory) remove(e *entry) {
	for _, key := range e.calls {
		same := slices.DeleteFunc(m.byCall[key], func(o *entry) bool { return o == e })
		if m.byCall[key] = same; len(same) == 0 {
			delete(m.byCall, key)
		}
	}
	c := m.clients[e.client]
	m.order.Remove(e.global)
	c.order.Remove(e.mine)
	c.size -= e.size
	m.size -= e.size
	if c.order.Len() == 0 {
		delete(m.clients, e.client)
	}
}

// expire drops what is too old: it is the least recently used.
func (m *Memory) expire() {
	before := m.now().Add(-m.ttl)
	for last := m.order.Back(); last != nil; last = m.order.Back() {
		e := last.Value.(*entry)
		if e.used.After(before) {
			return
		}
		m.remove(e)
	}
}

// sweep drops what is too old although nothing is stored or asked for.
func (m *Memory) sweep() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire()
	m.timer = nil
	if m.order.Len() > 0 {
		m.timer = time.AfterFunc(m.ttl/4, m.sweep)
	}
}

package thinking

import (
	"bytes"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/fairlru"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// The default limits of a Memory.
const (
	DefaultMaxSize = 64 << 20
	DefaultTTL     = time.Hour
)

// maxPerCall is the maximum number of responses that a Memory keeps for the same call.
const maxPerCall = 4

// entryShare limits one response to 1/entryShare of a Memory.
const entryShare = 32

// Memory stores the reasoning of responses that call tools, by client and tool call. Its size and the age of its
// entries are limited as package fairlru describes.
type Memory struct{ cache *fairlru.Cache[*thought] }

// thought is the reasoning of one choice. It is immutable.
type thought struct {
	provider string   // name of the configured provider that sent it
	calls    []string // keys of the calls that it belongs to
	details  []byte   // reasoning_details: a JSON array
	text     string   // reasoning_content
}

// NewMemory returns a memory of at most maxSize bytes, whose entries expire after ttl. 0 means the default for both. If
// now is nil, time.Now is used.
func NewMemory(maxSize int, ttl time.Duration, now func() time.Time) *Memory {
	if maxSize <= 0 {
		maxSize = DefaultMaxSize
	}
	if ttl <= 0 {
		ttl = DefaultTTL
	}
	return &Memory{cache: fairlru.New[*thought](maxSize, ttl, now)}
}

// Size returns the number of bytes in use.
func (m *Memory) Size() int { return m.cache.Size() }

// callKey returns the key of a tool call. It need not be unique: some providers start numbering their calls again in
// each response. Client names contain no line feed, and neither do IDs and tool names, which are escaped.
func callKey(client string, id, name []byte) string {
	key := make([]byte, 0, len(client)+len(id)+len(name)+2)
	key = append(append(key, client...), '\n')
	key = append(append(key, id...), '\n')
	return string(append(key, name...))
}

// put stores a client's thought under the keys of its calls.
func (m *Memory) put(name string, t *thought) {
	t.text = reasoningText(t.details) // get compares it with the lock held
	m.cache.Put(name, t.calls, t, len(t.details)+len(t.text), entryShare, func(old *thought, count int) bool { return count >= maxPerCall || old.equals(t) })
}

func (t *thought) equals(o *thought) bool {
	return t.provider == o.provider && bytes.Equal(t.details, o.details)
}

// hasText reports whether reasoning, the reasoning_content that a client returned, is the text of t.
func (t *thought) hasText(reasoning []byte) bool {
	return len(reasoning) > 0 && t.text == string(reasoning)
}

// reasoningText returns the reasoning_content that corresponds to reasoning_details.
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

// get returns the thought that is stored for a call, from a provider that usable accepts. If several responses have the
// call, only the latest whose text the client returned as reasoning qualifies, because a conversation must not receive
// the reasoning of another one. get returns nil if there is none.
func (m *Memory) get(key string, usable func(provider string) bool, reasoning []byte) *thought {
	t, _ := m.cache.Get(key, func(thoughts []*thought) int {
		found, n := -1, 0
		for i, t := range thoughts {
			if !usable(t.provider) {
				continue
			}
			if n++; n == 1 {
				found = i
				continue
			}
			if n == 2 && !thoughts[found].hasText(reasoning) {
				found = -1
			}
			if t.hasText(reasoning) {
				found = i
			}
		}
		return found
	})
	return t
}

package thinking

import (
	"bytes"
	"slices"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/fairlru"
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

// Memory remembers the reasoning of responses that call tools, by client and tool call. It is bounded in bytes and in time
// as package fairlru describes.
type Memory struct{ cache *fairlru.Cache[*thought] }

// thought is the reasoning of one choice. It is immutable.
type thought struct {
	provider string   // the configured one that it came from
	calls    []string // keys of the calls that it belongs to
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
	return &Memory{cache: fairlru.New[*thought](maxSize, ttl, now)}
}

// Size is how many bytes are in use.
func (m *Memory) Size() int { return m.cache.Size() }

// callKey identifies a tool call, mostly: some providers number their calls anew in each response.
// No name of a client has a line feed, nor has an id or a tool's name: both are escaped.
func callKey(client string, id, name []byte) string {
	key := make([]byte, 0, len(client)+len(id)+len(name)+2)
	key = append(append(key, client...), '\n')
	key = append(append(key, id...), '\n')
	return string(append(key, name...))
}

// put remembers a client's thought for its calls, in the order of its extras.
func (m *Memory) put(name string, t *thought) {
	if t.details != nil {
		t.said = reasoningText(t.details) // here, and not by those who hold the lock and ask
	}
	n := len(t.details) + len(t.said)
	for _, extra := range t.extras {
		n += len(extra)
	}
	m.cache.Put(name, t.calls, t, n, maxEntry, func(old *thought, same int) bool { return same >= maxSame || old.equals(t) })
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
	t, ok := m.cache.Get(key, func(thoughts []*thought) int {
		found, same := -1, 0
		for i, t := range thoughts {
			if !usable(t.provider) {
				continue
			}
			if same++; same == 1 {
				found = i
				continue
			}
			if same == 2 && !thoughts[found].says(reasoning) {
				found = -1
			}
			if t.says(reasoning) {
				found = i
			}
		}
		return found
	})
	if !ok {
		return nil, 0
	}
	return t, slices.Index(t.calls, key)
}

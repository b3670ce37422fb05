// Package fairlru implements an LRU cache that clients share, bounded in bytes and in time, in which a client that uses
// more than its share evicts its own entries.
//
// An entry that has been neither stored nor read within the TTL is dropped. If a new entry does not fit, and its client
// uses more than its share (the maximum size divided by the number of clients), the client's least recently used entry
// is evicted, otherwise the least recently used entry of all.
//
// A Cache is safe for concurrent use.
package fairlru

import (
	"container/list"
	"slices"
	"sync"
	"time"
)

// Cache maps keys to values of type V. A key may have several values, and a value several keys. Values are immutable.
type Cache[V any] struct {
	maxSize int
	ttl     time.Duration
	now     func() time.Time

	mu      sync.Mutex
	byKey   map[string][]*entry[V] // in the order in which they were stored
	clients map[string]*client
	order   list.List // of *entry, the most recently used first
	size    int
	timer   *time.Timer // calls sweep; nil while the cache is empty
}

// client is the entries of one client.
type client struct {
	order list.List // of *entry, the most recently used first
	size  int
}

type entry[V any] struct {
	client       string
	keys         []string
	value        V
	size         int
	used         time.Time     // last
	global, mine *list.Element // in the order of all entries, and of the client's
}

// overhead is about how many bytes an entry takes in addition to its value, and each of its keys in addition to its
// text.
const overhead = 256

// New returns a cache of at most maxSize bytes. If now is nil, it uses time.Now.
func New[V any](maxSize int, ttl time.Duration, now func() time.Time) *Cache[V] {
	if now == nil {
		now = time.Now
	}
	return &Cache[V]{maxSize: maxSize, ttl: ttl, now: now, byKey: make(map[string][]*entry[V]), clients: make(map[string]*client)}
}

// Size returns how many bytes are in use.
func (c *Cache[V]) Size() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.size
}

// Clients returns how many clients have entries.
func (c *Cache[V]) Clients() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.clients)
}

// Weigh returns about how many bytes a value of n bytes takes with its keys.
func Weigh(n int, keys []string) int {
	n += overhead
	for _, key := range keys {
		n += len(key) + overhead
	}
	return n
}

// Put stores a value of n bytes for a client. It drops each value that one of the keys already has and for which
// replaced returns true; same is the number of that key's values. Put returns false, and stores nothing, if the value
// takes more than 1/share of the cache.
func (c *Cache[V]) Put(name string, keys []string, v V, n, share int, replaced func(old V, same int) bool) bool {
	e := &entry[V]{client: name, keys: keys, value: v, size: Weigh(n, keys)}
	if e.size > c.maxSize/share {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expire(c.now())
	for _, key := range keys {
		for _, old := range slices.Clone(c.byKey[key]) {
			if replaced(old.value, len(c.byKey[key])) {
				c.remove(old)
			}
		}
	}
	c.add(e)
	own := c.clients[name]
	for c.size > c.maxSize {
		oldest := c.order.Back()
		if own.order.Len() > 1 && own.size > c.maxSize/len(c.clients) {
			oldest = own.order.Back()
		}
		c.remove(oldest.Value.(*entry[V]))
	}
	return true
}

// Get returns the value of a key that choose selects. choose is called with the lock held; it gets the key's values in
// the order in which they were stored, and returns an index, negative for none.
func (c *Cache[V]) Get(key string, choose func(values []V) int) (v V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	c.expire(now)
	same := c.byKey[key]
	if len(same) == 0 {
		return v, false
	}
	values := make([]V, 0, 4)
	for _, e := range same {
		values = append(values, e.value)
	}
	i := choose(values)
	if i < 0 {
		return v, false
	}
	e := same[i]
	c.touch(e, now)
	return e.value, true
}

// Latest returns the key's value that was stored last.
func (c *Cache[V]) Latest(key string) (V, bool) {
	return c.Get(key, func(values []V) int { return len(values) - 1 })
}

// Find is like Latest for a key that is not a string. It does not allocate.
func (c *Cache[V]) Find(key []byte) (v V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	c.expire(now)
	same := c.byKey[string(key)]
	if len(same) == 0 {
		return v, false
	}
	e := same[len(same)-1]
	c.touch(e, now)
	return e.value, true
}

// touch makes an entry the most recently used one. The caller holds c.mu.
func (c *Cache[V]) touch(e *entry[V], now time.Time) {
	e.used = now
	c.order.MoveToFront(e.global)
	c.clients[e.client].order.MoveToFront(e.mine)
}

// Delete drops all values of a key, and reports whether there were any.
func (c *Cache[V]) Delete(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expire(c.now())
	same := slices.Clone(c.byKey[key])
	for _, e := range same {
		c.remove(e)
	}
	return len(same) > 0
}

// add stores an entry. The caller holds c.mu, as for remove and expire.
func (c *Cache[V]) add(e *entry[V]) {
	own := c.clients[e.client]
	if own == nil {
		own = new(client)
		c.clients[e.client] = own
	}
	for _, key := range e.keys {
		c.byKey[key] = append(c.byKey[key], e)
	}
	e.used = c.now()
	e.global, e.mine = c.order.PushFront(e), own.order.PushFront(e)
	own.size += e.size
	c.size += e.size
	if c.timer == nil {
		c.timer = time.AfterFunc(c.ttl, c.sweep)
	}
}

func (c *Cache[V]) remove(e *entry[V]) {
	for _, key := range e.keys {
		same := slices.DeleteFunc(c.byKey[key], func(o *entry[V]) bool { return o == e })
		if c.byKey[key] = same; len(same) == 0 {
			delete(c.byKey, key)
		}
	}
	own := c.clients[e.client]
	c.order.Remove(e.global)
	own.order.Remove(e.mine)
	own.size -= e.size
	c.size -= e.size
	if own.order.Len() == 0 {
		delete(c.clients, e.client)
	}
}

// expire drops the entries that are older than the TTL. They are at the end of the order.
func (c *Cache[V]) expire(now time.Time) {
	before := now.Add(-c.ttl)
	for last := c.order.Back(); last != nil; last = c.order.Back() {
		e := last.Value.(*entry[V])
		if e.used.After(before) {
			return
		}
		c.remove(e)
	}
}

// sweep expires entries while the cache is not used.
func (c *Cache[V]) sweep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expire(c.now())
	c.timer = nil
	if c.order.Len() > 0 {
		c.timer = time.AfterFunc(c.ttl/4, c.sweep)
	}
}

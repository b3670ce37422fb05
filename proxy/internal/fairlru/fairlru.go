// Package fairlru is a cache that clients share: bounded in bytes and in time, and none of them displaces the entries of
// the others.
//
// What has been neither stored nor asked for within the TTL is dropped. Where the bytes do not suffice, a client that holds
// more than its share, one part of as many as there are clients, displaces what it has used least recently; else the least
// recently used entry of all goes.
//
// A Cache is safe for concurrent use.
package fairlru

import (
	"container/list"
	"slices"
	"sync"
	"time"
)

// Cache holds values of type V by keys. A key may have several values, and a value several keys. Values are immutable.
type Cache[V any] struct {
	maxSize int
	ttl     time.Duration
	now     func() time.Time

	mu      sync.Mutex
	byKey   map[string][]*entry[V] // the latest last
	clients map[string]*client
	order   list.List // of *entry, the most recently used first
	size    int
	timer   *time.Timer // drops what is too old; runs while there is anything
}

// client is what is held for one client.
type client struct {
	order list.List // of *entry, the most recently used first
	size  int
}

type entry[V any] struct {
	client       string
	keys         []string
	value        V
	size         int
	used         time.Time
	global, mine *list.Element
}

// overhead is about what an entry takes besides its value, and each of its keys.
const overhead = 256

// New returns a cache of at most maxSize bytes. now is nil for time.Now.
func New[V any](maxSize int, ttl time.Duration, now func() time.Time) *Cache[V] {
	if now == nil {
		now = time.Now
	}
	return &Cache[V]{maxSize: maxSize, ttl: ttl, now: now, byKey: make(map[string][]*entry[V]), clients: make(map[string]*client)}
}

// Size is how many bytes are in use.
func (c *Cache[V]) Size() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.size
}

// Clients is how many clients hold anything.
func (c *Cache[V]) Clients() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.clients)
}

// Weigh is about how many bytes a value of n bytes takes with its keys.
func Weigh(n int, keys []string) int {
	n += overhead
	for _, key := range keys {
		n += len(key) + overhead
	}
	return n
}

// Put stores a value of n bytes for a client. Of the values that one of the keys has already, those are dropped that
// replaced accepts; it is given how many there are. A value that takes more than one part in share of the cache is not
// stored: Put reports false.
func (c *Cache[V]) Put(name string, keys []string, v V, n, share int, replaced func(old V, same int) bool) bool {
	e := &entry[V]{client: name, keys: keys, value: v, size: Weigh(n, keys)}
	if e.size > c.maxSize/share {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expire()
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

// Get returns the value of a key that choose returns, an index of the values it is given, the latest last; none if it is
// negative. choose is called with the lock held.
func (c *Cache[V]) Get(key string, choose func(values []V) int) (v V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expire()
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
	e.used = c.now()
	c.order.MoveToFront(e.global)
	c.clients[e.client].order.MoveToFront(e.mine)
	return e.value, true
}

// Latest returns the value that was stored last under a key.
func (c *Cache[V]) Latest(key string) (V, bool) {
	return c.Get(key, func(values []V) int { return len(values) - 1 })
}

// Delete drops all values of a key. It reports whether there were any.
func (c *Cache[V]) Delete(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expire()
	same := slices.Clone(c.byKey[key])
	for _, e := range same {
		c.remove(e)
	}
	return len(same) > 0
}

// add and the methods below need the lock.
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

// expire drops what is too old: it is the least recently used.
func (c *Cache[V]) expire() {
	before := c.now().Add(-c.ttl)
	for last := c.order.Back(); last != nil; last = c.order.Back() {
		e := last.Value.(*entry[V])
		if e.used.After(before) {
			return
		}
		c.remove(e)
	}
}

// sweep drops what is too old although nothing is stored or asked for.
func (c *Cache[V]) sweep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expire()
	c.timer = nil
	if c.order.Len() > 0 {
		c.timer = time.AfterFunc(c.ttl/4, c.sweep)
	}
}

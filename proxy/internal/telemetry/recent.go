package telemetry

import (
	"slices"
	"sync"
)

// Recent holds the records of requests in flight, as far as they are known, and of the last ones that have ended. It has
// a fixed number of slots whose memory is reused: a request takes a free one, or else that of the request that has ended
// first. A request that finds none, because all others are in flight, is listed only when it has ended.
//
// A record is copied when the request starts, when its key is known, at each attempt, and when it ends. That does not
// allocate for ordinary requests, nor for others once the memory of the slots has grown, and readers block it at most
// while they copy one slot. A nil Recent keeps nothing.
type Recent struct {
	slots []slot

	mu    sync.Mutex // locked before the mutex of a slot, if both are
	free  []int32    // indexes of slots without a request
	ended []int32    // ring of the indexes of slots whose request has ended; as long as slots
	first int        // position in ended of the one that has ended first
	n     int        // number of elements of ended in use
	seq   uint64     // number of requests that have ended
}

// slot holds one request.
type slot struct {
	mu       sync.Mutex
	used     bool
	seq      uint64 // as in Entry
	record   Record // without the fields that are kept below
	cause    string
	route    []byte
	response []byte
	tries    []Attempt
	filters  []FilterUse

	// Most requests need no other memory for the three.
	routeRoom    [192]byte
	responseRoom [64]byte
	triesRoom    [1]Attempt
}

// Limits of what a slot keeps of a request. Names and IDs have limits of their own.
const (
	maxTries    = 16
	maxFilters  = 16
	maxRoute    = 1 << 10
	maxResponse = 128
	maxText     = 256
)

// Entry is a request in Recent.
type Entry struct {
	Record          // with Tries, Filters and ResponseID of its own, and without Cause and Route
	Seq      uint64 // order in which requests have ended, from 1; 0 in flight
	CauseWas string // Cause as a text of at most MaxCause bytes
	RouteWas string // Route as a text, in the format of x-gateway-route
}

// NewRecent returns a Recent for a number of requests, or nil for 0.
func NewRecent(size int) *Recent {
	if size <= 0 {
		return nil
	}
	c := &Recent{slots: make([]slot, size), free: make([]int32, size), ended: make([]int32, size)}
	for i := range c.free {
		c.free[i] = int32(size - 1 - i)
	}
	return c
}

// Start lists a request as in flight.
func (c *Recent) Start(r *Record) {
	if c == nil || !c.claim(r) {
		return
	}
	s := &c.slots[r.slot-1]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.copy(r)
}

// claim takes a slot for a request.
func (c *Recent) claim(r *Record) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	var i int32
	switch {
	case len(c.free) > 0:
		i = c.free[len(c.free)-1]
		c.free = c.free[:len(c.free)-1]
	case c.n > 0:
		i = c.ended[c.first]
		c.first = (c.first + 1) % len(c.ended)
		c.n--
	default:
		return false
	}
	s := &c.slots[i]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.route == nil {
		s.route, s.response, s.tries = s.routeRoom[:0], s.responseRoom[:0], s.triesRoom[:0]
	}
	s.used, s.seq, s.cause, s.route = false, 0, "", s.route[:0] // until copy, the record is that of another request
	r.slot = i + 1
	return true
}

// Attempt copies what is known of a request in flight at the start and the end of an attempt.
func (c *Recent) Attempt(r *Record) {
	if c == nil || r.slot == 0 {
		return
	}
	s := &c.slots[r.slot-1]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.record.Model, s.record.Stream, s.record.Rule, s.record.Attempts = r.Model, r.Stream, r.Rule, r.Attempts
	s.copyTries(r)
}

func (s *slot) copyTries(r *Record) {
	clear(s.tries[min(len(s.tries), len(r.Tries)):])
	s.tries = append(s.tries[:0], r.Tries[:min(len(r.Tries), maxTries)]...)
}

// copy copies a record, cut to the limits.
func (s *slot) copy(r *Record) {
	s.copyTries(r)
	clear(s.filters[min(len(s.filters), len(r.Filters)):])
	s.filters = append(s.filters[:0], r.Filters[:min(len(r.Filters), maxFilters)]...)
	s.response = s.response[:0]
	if r.Attempts > 0 {
		s.response = append(s.response, r.ResponseID[:min(len(r.ResponseID), maxResponse)]...)
	}
	s.used, s.record = true, *r
	s.record.Tries, s.record.Filters, s.record.Route, s.record.ResponseID, s.record.Cause = nil, nil, nil, nil, nil
	s.record.counted, s.record.slot = false, 0
	for _, text := range [...]*string{&s.record.UpstreamID, &s.record.Tags, &s.record.Target, &s.record.Code} {
		*text = cut(*text, maxText)
	}
	s.record.Warnings = cut(s.record.Warnings, MaxCause)
}

// Decision is a routing decision that can be written as one line.
type Decision interface {
	AppendLine(dst []byte) []byte
}

// Routed keeps the routing decision of a request in flight, which is about to be released.
func (c *Recent) Routed(r *Record, d Decision) {
	if c == nil || r.slot == 0 {
		return
	}
	s := &c.slots[r.slot-1]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.route = d.AppendLine(s.route[:0]); len(s.route) > maxRoute {
		s.route = slices.Clip(s.route[:maxRoute])
	}
	r.Route = s.route
}

// End keeps the record of a request that has ended, whether or not it was listed as in flight.
func (c *Recent) End(r *Record) {
	if c == nil || r.slot == 0 && !c.claim(r) {
		return
	}
	i := r.slot - 1
	r.slot = 0
	s := &c.slots[i]
	c.mu.Lock()
	defer c.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.copy(r)
	s.cause = CauseText(r.Cause)
	c.seq++
	s.seq = c.seq
	c.ended[(c.first+c.n)%len(c.ended)] = i
	c.n++
}

// Abandon removes a request in flight. It does nothing after End.
func (c *Recent) Abandon(r *Record) {
	if c == nil || r.slot == 0 {
		return
	}
	i := r.slot - 1
	r.slot = 0
	s := &c.slots[i]
	c.mu.Lock()
	defer c.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used = false
	c.free = append(c.free, i)
}

// appendTo appends a copy of the slot's request. The record is copied straight to its place, because requests wait.
func (s *slot) appendTo(entries []Entry) []Entry {
	n := len(entries)
	entries = slices.Grow(entries, 1)[:n+1]
	e := &entries[n]
	e.Record, e.Seq, e.CauseWas, e.RouteWas = s.record, s.seq, s.cause, string(s.route)
	e.Tries, e.Filters, e.ResponseID = slices.Clone(s.tries), slices.Clone(s.filters), slices.Clone(s.response)
	return entries
}

// After returns the requests that a query selects among those that have ended after the one with the number seq: at most
// q.Limit of them, oldest first. It also returns how many are missing, because there were more or because they are no
// longer kept, and the number of the last request that has ended.
func (c *Recent) After(seq uint64, q *RecentQuery) (entries []Entry, lost, last uint64) {
	if c == nil {
		return nil, 0, seq
	}
	c.mu.Lock()
	last = c.seq
	var indexes []int32
	if last > seq {
		n := int(min(last-seq, uint64(c.n)))
		lost = last - seq - uint64(n)
		for k := c.n - n; k < c.n; k++ {
			indexes = append(indexes, c.ended[(c.first+k)%len(c.ended)])
		}
	}
	c.mu.Unlock()
	selected := indexes[:0]
	for _, i := range indexes {
		if s := &c.slots[i]; s.isSelected(q, seq) {
			selected = append(selected, i)
		}
	}
	if more := len(selected) - q.Limit; more > 0 {
		lost += uint64(more)
		selected = selected[more:]
	}
	for _, i := range selected {
		s := &c.slots[i]
		s.mu.Lock()
		if s.used && s.seq > seq && s.seq <= last {
			entries = s.appendTo(entries)
		} else {
			lost++ // replaced meanwhile
		}
		s.mu.Unlock()
	}
	return entries, lost, last
}

// isSelected reports whether the slot has a request that has ended after the one with the number seq, and that a query
// selects.
func (s *slot) isSelected(q *RecentQuery, seq uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used && s.seq > seq && q.selects(s)
}

// Last returns the number of the last request that has ended.
func (c *Recent) Last() uint64 {
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seq
}

// Codes counts the requests that have ended by the error codes of those that failed, and returns the total as well.
func (c *Recent) Codes() (byCode map[string]int64, total int64) {
	byCode = make(map[string]int64)
	if c == nil {
		return byCode, 0
	}
	for i := range c.slots {
		s := &c.slots[i]
		s.mu.Lock()
		if s.used && s.seq != 0 {
			if total++; s.record.Code != "" {
				byCode[s.record.Code]++
			}
		}
		s.mu.Unlock()
	}
	return byCode, total
}

// Select returns the requests that a query selects: those in flight, the last one first, and then those that have ended,
// the last one first.
func (c *Recent) Select(q *RecentQuery) []Entry {
	if c == nil {
		return nil
	}
	entries, listed := c.selectInFlight(q)
	return c.selectEnded(entries, listed, q)
}

// selectInFlight returns the requests in flight that a query selects, and in which slots they are.
func (c *Recent) selectInFlight(q *RecentQuery) (entries []Entry, listed []bool) {
	listed = make([]bool, len(c.slots))
	if q.Before != 0 || q.State == StateEnded {
		return nil, listed
	}
	for i := range c.slots {
		n := len(entries)
		entries = c.slots[i].appendIf(entries, q, false)
		listed[i] = len(entries) > n
	}
	slices.SortStableFunc(entries, func(a, b Entry) int { return b.Began.Compare(a.Began) })
	return entries[:min(len(entries), q.Limit)], listed
}

// selectEnded appends the requests that have ended and that a query selects. It leaves out those in listed slots, which
// were in flight before.
func (c *Recent) selectEnded(entries []Entry, listed []bool, q *RecentQuery) []Entry {
	if q.State == StateInFlight {
		return entries
	}
	c.mu.Lock()
	indexes := make([]int32, c.n)
	for k := range indexes {
		indexes[k] = c.ended[(c.first+c.n-1-k)%len(c.ended)]
	}
	c.mu.Unlock()
	for _, i := range indexes {
		if len(entries) >= q.Limit {
			break
		}
		if !listed[i] {
			entries = c.slots[i].appendIf(entries, q, true)
		}
	}
	return entries
}

// appendIf appends the slot's request if it has ended, or is in flight, and a query selects it.
func (s *slot) appendIf(entries []Entry, q *RecentQuery, ended bool) []Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.used || (s.seq != 0) != ended || !q.selects(s) {
		return entries
	}
	return s.appendTo(entries)
}

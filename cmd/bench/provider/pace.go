package provider

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// slots is the number of ticks in an interval. Streams are spread over them, so that their events do not coincide.
const slots = 10

// pace writes the events of many streams at the same rate from one goroutine, because a timer per stream would cost
// more than the writes. Late ticks are skipped, because the network would deliver two events in quick succession
// together.
type pace struct {
	mu     sync.Mutex
	slots  [slots][]*paced
	next   int // slot for the next stream
	ended  bool
	events *atomic.Int64
}

// paced is a stream that pace writes.
type paced struct {
	conn   net.Conn
	events [][]byte
	n      int
	done   chan error
}

func newPace(every time.Duration, events *atomic.Int64, end <-chan struct{}) *pace {
	p := &pace{events: events}
	go func() {
		t := time.NewTicker(every / slots)
		defer t.Stop()
		for slot := 0; ; slot = (slot + 1) % slots {
			select {
			case <-t.C:
				p.write(slot)
			case <-end:
				p.end()
				return
			}
		}
	}()
	return p
}

// run writes the events of a stream until all streams are ended or a write fails.
func (p *pace) run(c net.Conn, events [][]byte) error {
	s := &paced{conn: c, events: events, done: make(chan error, 1)}
	p.mu.Lock()
	if p.ended {
		p.mu.Unlock()
		return nil
	}
	p.slots[p.next] = append(p.slots[p.next], s)
	p.next = (p.next + 1) % slots
	p.mu.Unlock()
	return <-s.done
}

// write writes the next event of each stream in a slot, and removes the streams whose write fails.
func (p *pace) write(slot int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	kept := p.slots[slot][:0]
	for _, s := range p.slots[slot] {
		s.n++
		if _, err := s.conn.Write(s.events[s.n%len(s.events)]); err != nil {
			s.done <- err
			continue
		}
		p.events.Add(1)
		kept = append(kept, s)
	}
	p.slots[slot] = kept
}

// end ends all streams.
func (p *pace) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	for _, streams := range p.slots {
		for _, s := range streams {
			s.done <- nil
		}
	}
}

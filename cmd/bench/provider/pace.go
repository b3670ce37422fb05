package provider

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// slots is how many turns a period has. Streams are spread over them, so that their events come apart.
const slots = 10

// pace writes the events of many streams at one rate, from one goroutine: a timer for each stream would cost more than
// the writing. A turn that is late is left out, since an event that follows at once would travel with it.
type pace struct {
	mu     sync.Mutex
	turns  [slots][]*paced
	next   int
	ended  bool
	events *atomic.Int64
}

// paced is a stream.
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
		for turn := 0; ; turn = (turn + 1) % slots {
			select {
			case <-t.C:
				p.write(turn)
			case <-end:
				p.end()
				return
			}
		}
	}()
	return p
}

// run writes the events of a stream until all streams are ended.
func (p *pace) run(c net.Conn, events [][]byte) error {
	s := &paced{conn: c, events: events, done: make(chan error, 1)}
	p.mu.Lock()
	if p.ended {
		p.mu.Unlock()
		return nil
	}
	p.turns[p.next] = append(p.turns[p.next], s)
	p.next = (p.next + 1) % slots
	p.mu.Unlock()
	return <-s.done
}

func (p *pace) write(turn int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	kept := p.turns[turn][:0]
	for _, s := range p.turns[turn] {
		s.n++
		if _, err := s.conn.Write(s.events[s.n%len(s.events)]); err != nil {
			s.done <- err
			continue
		}
		p.events.Add(1)
		kept = append(kept, s)
	}
	p.turns[turn] = kept
}

func (p *pace) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	for _, turn := range p.turns {
		for _, s := range turn {
			s.done <- nil
		}
	}
}

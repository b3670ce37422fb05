package soaktest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/testing/binarytest"
	"github.com/sluice-gateway/sluice/proxy/internal/testing/loadtest"
)

// Run is one soak: the clients, the provider and the account of both. The gateway between them is somebody else's.
type Run struct {
	Seed     uint64
	Provider *loadtest.Provider

	ledger  *ledger
	swaps   *swaps
	conns   connections
	clients sync.WaitGroup

	latency loadtest.Latencies // to the first text, where the provider made nobody wait
	noticed loadtest.Latencies // until the provider saw that a client had gone while it was thinking

	begun, late atomic.Int64 // requests; those that began after their time, for there were too many
	streams     atomic.Int64 // of them, that asked for a stream
	open        atomic.Int64 // requests in flight

	mu     sync.Mutex
	tally  map[string]int // requests by how they ended
	broken []string       // promises, the first of them
	breaks int
	raw    []string // lines that are not of the log
	demoed string   // what the demo says
}

// NewRun starts the provider of a run.
func NewRun(seed uint64) (*Run, error) {
	r := &Run{Seed: seed, tally: map[string]int{}}
	r.ledger, r.swaps = newLedger(r), &swaps{lines: make(chan *binarytest.Line, 64)}
	var err error
	r.Provider, err = loadtest.Listen(r.answer)
	return r, err
}

// Log takes the lines of the gateway's log.
func (r *Run) Log(l *binarytest.Line) {
	switch l.Message {
	case "request":
		r.ledger.line(l)
	case "panic":
		r.Broken("the gateway panicked: %s", l.Text)
	case reloaded, refused:
		r.swaps.line(l)
	case "":
		// Not the log's: the race detector, or the end of the process.
		r.mu.Lock()
		r.raw = append(r.raw, l.Text)
		r.mu.Unlock()
	}
}

// Raw is what the gateway wrote besides its log, which is nothing as long as all is well.
func (r *Run) Raw() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.raw...)
}

// Broken notes a promise that was not kept.
func (r *Run) Broken(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.breaks++
	if len(r.broken) < 10 {
		r.broken = append(r.broken, fmt.Sprintf(format, args...))
	}
}

// Breaks is how many promises were not kept, and the first of them.
func (r *Run) Breaks() (int, []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.breaks, append([]string(nil), r.broken...)
}

// maxOpen bounds the requests in flight: where the machine is too slow for the rate, they wait.
const maxOpen = 2000

// pacing is how often requests are begun.
const pacing = 5 * time.Millisecond

// Load begins requests at a rate a second, each on a goroutine of its own, until stop is closed, and waits for none of
// them. A request's time counts from when it was due.
func (r *Run) Load(addr string, rate int, stop <-chan struct{}) {
	r.conns.addr = addr
	t := time.NewTicker(pacing)
	defer t.Stop()
	places := make(chan struct{}, maxOpen)
	began := time.Now()
	for n := uint64(0); ; {
		select {
		case <-stop:
			return
		case now := <-t.C:
			for due := uint64(now.Sub(began).Seconds() * float64(rate)); n < due; n++ {
				select {
				case places <- struct{}{}:
				default:
					r.late.Add(1)
					select {
					case places <- struct{}{}:
					case <-stop:
						return
					}
				}
				p := PlanOf(r.Seed, n)
				r.begun.Add(1)
				if p.Stream && p.Asks == completion {
					r.streams.Add(1)
				}
				r.open.Add(1)
				at := began.Add(time.Duration(float64(n) / float64(rate) * float64(time.Second)))
				r.clients.Go(func() {
					r.visit(p, at)
					r.open.Add(-1)
					<-places
				})
			}
		}
	}
}

// Finish waits until all clients are done, and closes the connections that they keep.
func (r *Run) Finish() {
	r.clients.Wait()
	r.conns.close()
}

// Lines is how many requests the gateway's log has.
func (r *Run) Lines() int {
	r.ledger.mu.Lock()
	defer r.ledger.mu.Unlock()
	return r.ledger.lines
}

// Unaccounted says which requests are not in the gateway's log, as far as they fit into a message.
func (r *Run) Unaccounted() (n int, some []string) { return r.ledger.rest() }

// count notes how a request ended.
func (r *Run) count(e *entry) {
	class := "answered"
	switch s := e.seen; {
	case s.left:
		class = "left"
	case s.err != nil:
		class = "unreadable"
	case s.code != "":
		class = s.code
	case !s.complete:
		class = fmt.Sprint(s.status)
	}
	r.mu.Lock()
	r.tally[class]++
	r.mu.Unlock()
}

// demo is what the demo said first; it says the same to everybody.
func (r *Run) demo(text string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.demoed == "" {
		r.demoed = text
	}
	return r.demoed
}

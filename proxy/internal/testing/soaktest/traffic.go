package soaktest

import (
	"fmt"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/testing/binarytest"
	"github.com/sluice-gateway/sluice/proxy/internal/testing/figures"
	"github.com/sluice-gateway/sluice/proxy/internal/testing/loadtest"
)

// Run is a soak test run: the clients, the provider, and the checks of their results. The caller starts the gateway.
type Run struct {
	Seed     uint64
	Provider *loadtest.Provider

	ledger    *ledger
	traces    *figures.Traces
	collector *httptest.Server // receives traces
	reloads   *reloads
	conns     connections
	clients   sync.WaitGroup

	latency           loadtest.Latencies // time to the first text of responses without delays
	disconnectLatency loadtest.Latencies // time until the provider's connection was closed after a client disconnected while waiting

	sent     atomic.Int64 // requests
	streams  atomic.Int64 // requests for a stream
	inFlight atomic.Int64 // requests in flight

	mu              sync.Mutex
	outcomes        map[string]int // number of requests by outcome
	firstViolations []string
	violations      int
	stderr          []string // lines of standard error that are not log lines
	demoResponse    string   // the first text of the demo model
}

// NewRun starts the provider of a run.
func NewRun(seed uint64) (*Run, error) {
	r := &Run{Seed: seed, outcomes: map[string]int{}}
	r.ledger, r.reloads = newLedger(r), &reloads{lines: make(chan *binarytest.Line, 64)}
	r.traces = figures.NewTraces()
	r.collector = httptest.NewServer(r.traces)
	var err error
	r.Provider, err = loadtest.Listen(r.respond)
	return r, err
}

// Close stops the provider and the collector.
func (r *Run) Close() {
	r.Provider.Close()
	r.collector.Close()
}

// Log handles a line of the gateway's log.
func (r *Run) Log(l *binarytest.Line) {
	switch l.Message {
	case "request":
		r.ledger.recordLine(l)
	case "panic":
		r.Violation("the gateway panicked: %s", l.Text)
	case msgReloaded, msgReloadFailed:
		r.reloads.recordLine(l)
	case "":
		// Not a log line, but output of the race detector or a stack trace.
		r.mu.Lock()
		r.stderr = append(r.stderr, l.Text)
		r.mu.Unlock()
	}
}

// Stderr returns the gateway's output on standard error besides the log. There should be none.
func (r *Run) Stderr() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.stderr...)
}

// Violation records an error of the gateway.
func (r *Run) Violation(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.violations++
	if len(r.firstViolations) < 10 {
		r.firstViolations = append(r.firstViolations, fmt.Sprintf(format, args...))
	}
}

// Violations returns the number of violations, and the first ones.
func (r *Run) Violations() (int, []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.violations, append([]string(nil), r.firstViolations...)
}

// maxInFlight is the maximum number of requests in flight. If it is reached because the machine is too slow, requests
// wait.
const maxInFlight = 2000

// loadInterval is how often due requests are sent.
const loadInterval = 5 * time.Millisecond

// Load sends requests at a rate per second, each on its own goroutine, until stop is closed. It does not wait for the
// responses. Latencies count from the time at which a request is due.
func (r *Run) Load(addr string, rate int, stop <-chan struct{}) {
	r.conns.addr = addr
	t := time.NewTicker(loadInterval)
	defer t.Stop()
	semaphore := make(chan struct{}, maxInFlight)
	began := time.Now()
	for n := uint64(0); ; {
		select {
		case <-stop:
			return
		case now := <-t.C:
			for due := uint64(now.Sub(began).Seconds() * float64(rate)); n < due; n++ {
				select {
				case semaphore <- struct{}{}:
				case <-stop:
					return
				}
				p := NewPlan(r.Seed, n)
				r.sent.Add(1)
				if p.Stream && p.Kind == completion {
					r.streams.Add(1)
				}
				r.inFlight.Add(1)
				at := began.Add(time.Duration(float64(n) / float64(rate) * float64(time.Second)))
				r.clients.Go(func() {
					r.runClient(p, at)
					r.inFlight.Add(-1)
					<-semaphore
				})
			}
		}
	}
}

// Finish waits until all clients are done, and closes their idle connections.
func (r *Run) Finish() {
	r.clients.Wait()
	r.conns.close()
}

// Lines returns the number of access log lines.
func (r *Run) Lines() int {
	r.ledger.mu.Lock()
	defer r.ledger.mu.Unlock()
	return r.ledger.lines
}

// Unaccounted returns the number of requests that are not done or not in the access log, and describes some of them.
func (r *Run) Unaccounted() (n int, some []string) { return r.ledger.unfinished() }

// count counts the outcome of a request.
func (r *Run) count(e *entry) {
	outcome := outcomeComplete
	switch s := e.client; {
	case s.left:
		outcome = outcomeDisconnected
	case s.err != nil:
		outcome = outcomeInvalid
	case s.code != "":
		outcome = s.code
	case !s.complete:
		outcome = fmt.Sprint(s.status)
	}
	r.mu.Lock()
	r.outcomes[outcome]++
	r.mu.Unlock()
}

// Outcomes of requests besides error codes and statuses.
const (
	outcomeComplete     = "complete"
	outcomeDisconnected = "client disconnected"
	outcomeInvalid      = "invalid response"
)

// demoText returns the first text that the demo model produced, which all others must equal.
func (r *Run) demoText(text string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.demoResponse == "" {
		r.demoResponse = text
	}
	return r.demoResponse
}

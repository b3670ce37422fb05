package soaktest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/sluice-gateway/sluice/proxy/internal/testing/binarytest"
	"github.com/sluice-gateway/sluice/proxy/internal/testing/figures"
)

// ledger holds an entry for each request until both the client's result and the access log line are known. Then it
// checks and removes the entry, so its size is limited by the number of requests in flight.
type ledger struct {
	run *Run

	mu    sync.Mutex
	open  map[uint64]*entry
	lines int // number of access log lines

	// What the log says about all requests for each model, and about those that the ledger has: those with an attempt,
	// among whose errors disconnected clients are not.
	logged, booked figures.ByModel
}

// statusDisconnected is the status of requests whose clients disconnected.
const statusDisconnected = 499

// entry is a request that has not been checked yet.
type entry struct {
	plan      *Plan
	client    *clientResult    // nil until the client is done
	line      *binarytest.Line // nil until the request is in the access log
	delivered bool             // a provider was about to send the end of a complete response
	waiting   chan struct{}    // closed when a provider has received the request
	waited    bool             // waiting is closed
	logged    chan struct{}    // closed when line is set
}

// clientResult is the result of a request from the client's point of view.
type clientResult struct {
	status   int    // 0 if there was no response
	code     string // error code of an error response, or at the end of a stream
	complete bool   // the response was complete
	left     bool   // the client disconnected, as planned
	err      error  // unexpected error
}

func newLedger(r *Run) *ledger {
	return &ledger{run: r, open: map[uint64]*entry{}, logged: figures.ByModel{}, booked: figures.ByModel{}}
}

// add adds an entry for a request.
func (l *ledger) add(p *Plan) *entry {
	e := &entry{plan: p, waiting: make(chan struct{}), logged: make(chan struct{})}
	l.mu.Lock()
	l.open[p.Seq] = e
	l.mu.Unlock()
	return e
}

// recordReached records that a provider has received a request.
func (l *ledger) recordReached(seq uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.open[seq]; e != nil && !e.waited {
		e.waited = true
		close(e.waiting)
	}
}

// recordDelivery records that a provider is about to send the end of a response.
func (l *ledger) recordDelivery(seq uint64, f Fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.open[seq]; e != nil && f <= harmless {
		e.delivered = true
	}
}

// recordClient records the client's result. It is called once per request.
func (l *ledger) recordClient(p *Plan, s clientResult) {
	l.mu.Lock()
	e := l.open[p.Seq]
	e.client = &s
	l.checkIfFinished(e)
}

// recordLine records an access log line.
func (l *ledger) recordLine(line *binarytest.Line) {
	l.mu.Lock()
	l.lines++
	if line.Model != "" {
		dollars := line.Cost + line.UnusedCost
		l.logged.Add(line.Model, line.Code != "", line.Prompt, line.Completion, dollars)
		if line.Attempts > 0 {
			l.booked.Add(line.Model, line.Code != "" && line.Status != statusDisconnected, line.Prompt, line.Completion, dollars)
		}
	}
	text, ok := strings.CutPrefix(line.Request, idPrefix)
	if !ok { // a request that is not HTTP has no ID of a client
		l.mu.Unlock()
		return
	}
	seq, err := strconv.ParseUint(text, 10, 64)
	e := l.open[seq]
	if err != nil || e == nil || e.line != nil {
		l.mu.Unlock()
		l.run.Violation("a request is in the access log twice, or unknown: %s", line.Text)
		return
	}
	e.line = line
	close(e.logged)
	l.checkIfFinished(e)
}

// checkIfFinished checks an entry for which all results are known. The caller holds l.mu, which checkIfFinished
// unlocks.
func (l *ledger) checkIfFinished(e *entry) {
	finished := e.client != nil && (e.line != nil || e.plan.Kind == notHTTP)
	if finished {
		delete(l.open, e.plan.Seq)
	}
	l.mu.Unlock()
	if !finished {
		return
	}
	l.run.count(e)
	if problem := e.check(); problem != "" {
		text := ""
		if e.line != nil {
			text = e.line.Text
		}
		l.run.Violation("%s\n    %s\n    client: status %d, code %q, complete %t, left %t, error %v\n    %s", problem, e.plan, e.client.status, e.client.code, e.client.complete, e.client.left, e.client.err, text)
	}
}

// unfinished returns the number of unchecked requests, and describes some of them.
func (l *ledger) unfinished() (n int, some []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.open {
		if len(some) < 5 {
			missing := "client not done"
			if e.client != nil {
				missing = "not in the access log"
			}
			some = append(some, missing+": "+e.plan.String())
		}
	}
	return len(l.open), some
}

// check returns the problem with the results of a request, or "".
func (e *entry) check() string {
	p, s := e.plan, e.client
	if p.Kind != completion {
		return p.Kind.check(s)
	}
	line := e.line
	switch {
	case s.err != nil && !s.left:
		return "the client received an invalid response"
	case line.Complete && !e.delivered && p.Model != modelDemo:
		return "the response is logged as complete, but no provider sent a complete one"
	case s.complete && !line.Complete:
		return "the client received a complete response that is logged as incomplete"
	case line.Complete && (p.Model == modelOpenAI || p.Model == modelAnthropic) && (line.Prompt != p.prompt || line.Completion != p.completion):
		return fmt.Sprintf("the logged tokens differ from the provider's, %d and %d", p.prompt, p.completion)
	case p.leaves() || p.Behaviour == Stalled:
		return e.checkDisconnect()
	case s.status != line.Status || s.code != line.Code:
		return "the log and the client have different statuses or codes"
	case s.complete:
		if !p.maySucceed() {
			return "the client received a complete response in spite of a fault"
		}
		return ""
	case line.Complete:
		return "the response is logged as complete, but the client received an incomplete one"
	}
	return p.checkFailure(s)
}

// check returns the problem with the result of a request without a provider, or "".
func (k requestKind) check(s *clientResult) string {
	want := map[requestKind]clientResult{
		models: {status: 200, complete: true}, noKey: {status: 401, code: "missing_api_key"}, wrongKey: {status: 401, code: "invalid_api_key"},
		unknownModel: {status: 404, code: "model_not_found"}, invalidJSON: {status: 400}, notHTTP: {status: 400, code: "bad_request"},
	}[k]
	if *s != want {
		return fmt.Sprintf("want %+v", want)
	}
	return ""
}

// checkDisconnect returns the problem with the log line of a client that disconnected or stalled, or "".
func (e *entry) checkDisconnect() string {
	p, s, line := e.plan, e.client, e.line
	gone := line.Status == statusDisconnected && line.Code == "client_closed_request" && !line.Complete
	finished := line.Status == 200 && line.Code == "" && line.Complete
	switch {
	case gone && !s.complete:
		return ""
	case finished && p.Behaviour != LeavesWaiting && p.Behaviour != Stalled:
		// The whole response was written before the gateway noticed the disconnect.
		return ""
	}
	return "the client disconnect is not logged correctly"
}

// maySucceed reports whether the client may receive a complete response in spite of the fault.
func (p *Plan) maySucceed() bool {
	return p.Fault <= harmless || p.Model == modelEither
}

// failures are the statuses and codes that a client may get for each fault. With status 200, the stream had already
// started.
var failures = map[Fault][]string{
	// The circuit breaker opens, because all requests to this provider fail.
	Refused:      {"502 upstream_unreachable", "503 upstream_unavailable"},
	ResetsAtOnce: {"502 upstream_unreachable"},
	EndsAtOnce:   {"502 upstream_unreachable"},
	Status500:    {"502 upstream_error"},
	Status503:    {"503 overloaded"},
	Status429:    {"429 rate_limit_exceeded"},
	NotHTTP:      {"502 upstream_bad_answer"},
	HTMLPage:     {"502 upstream_bad_answer"},
	Silent:       {"504 upstream_timeout"},
	Resets:       {"200 upstream_stream_truncated", "502 upstream_stream_truncated", "502 upstream_unreachable"},
	Ends:         {"200 upstream_stream_truncated", "502 upstream_stream_truncated"},
	Hangs:        {"200 upstream_timeout", "504 upstream_timeout"},
	InvalidData:  {"200 upstream_bad_answer", "502 upstream_bad_answer", "200 plugin_crashed", "502 plugin_crashed"},
	Incomplete:   {"200 upstream_stream_truncated", "502 upstream_stream_truncated"},
	Traps:        {"200 plugin_crashed", "502 plugin_crashed", "200 plugin_timeout", "502 plugin_timeout"},
}

// checkFailure returns the problem with an unsuccessful request, or "".
func (p *Plan) checkFailure(s *clientResult) string {
	got := fmt.Sprintf("%d %s", s.status, s.code)
	switch {
	case p.Fault <= harmless:
		return "the request failed without a fault"
	case !slices.Contains(failures[p.Fault], got):
		return "wrong error for the fault: want " + strings.Join(failures[p.Fault], " or ")
	case s.status == 200 && !p.Stream:
		return "a non-streaming request failed with status 200"
	}
	return ""
}

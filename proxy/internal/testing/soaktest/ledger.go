package soaktest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/sluice-gateway/sluice/proxy/internal/testing/binarytest"
)

// ledger holds what is known of each request until all is: what the client saw, and what the gateway's log says. Then it is
// judged and forgotten, so that a run of any length takes the memory of what is in flight.
type ledger struct {
	run *Run

	mu      sync.Mutex
	open    map[uint64]*entry
	unnamed int // lines of requests whose name no client gave
	lines   int
}

// entry is a request that is not judged yet.
type entry struct {
	plan      *Plan
	seen      *seen            // nil: the client is not done
	line      *binarytest.Line // nil: it is not in the log yet
	delivered bool             // a provider was about to send the end of a whole answer
	waiting   chan struct{}    // closed when a provider has the request
	waited    bool             // it is closed
	logged    chan struct{}    // closed when line is there
}

// seen is what a client saw of its answer.
type seen struct {
	status   int    // 0: no answer came
	code     string // of an error, in place of an answer or at its end
	complete bool   // it was an answer to its very end
	left     bool   // the client went, as planned
	err      error  // how the answer ended where it should not
}

func newLedger(r *Run) *ledger { return &ledger{run: r, open: map[uint64]*entry{}} }

// begin opens the entry of a request.
func (l *ledger) begin(p *Plan) *entry {
	e := &entry{plan: p, waiting: make(chan struct{}), logged: make(chan struct{})}
	l.mu.Lock()
	l.open[p.Seq] = e
	l.mu.Unlock()
	return e
}

// reached says that a provider has a request.
func (l *ledger) reached(seq uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.open[seq]; e != nil && !e.waited {
		e.waited = true
		close(e.waiting)
	}
}

// delivers says that a provider is about to send the end of an answer.
func (l *ledger) delivers(seq uint64, f Fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.open[seq]; e != nil && f <= harmless {
		e.delivered = true
	}
}

// saw says what the client saw, once.
func (l *ledger) saw(p *Plan, s seen) {
	l.mu.Lock()
	e := l.open[p.Seq]
	e.seen = &s
	l.settle(e)
}

// line takes a line of the access log.
func (l *ledger) line(line *binarytest.Line) {
	l.mu.Lock()
	l.lines++
	text, named := strings.CutPrefix(line.Request, idPrefix)
	if !named {
		l.unnamed++
		l.mu.Unlock()
		return
	}
	seq, err := strconv.ParseUint(text, 10, 64)
	e := l.open[seq]
	if err != nil || e == nil || e.line != nil {
		l.mu.Unlock()
		l.run.Broken("a request is accounted twice: %s", line.Text)
		return
	}
	e.line = line
	close(e.logged)
	l.settle(e)
}

// settle judges an entry of which all is known. l.mu is held, and given back.
func (l *ledger) settle(e *entry) {
	whole := e.seen != nil && (e.line != nil || e.plan.Asks == noHTTP)
	if whole {
		delete(l.open, e.plan.Seq)
	}
	l.mu.Unlock()
	if !whole {
		return
	}
	l.run.count(e)
	if wrong := e.judge(); wrong != "" {
		text := ""
		if e.line != nil {
			text = e.line.Text
		}
		l.run.Broken("%s\n    %s\n    the client saw status %d, code %q, complete %t, left %t, error %v\n    %s", wrong, e.plan, e.seen.status, e.seen.code, e.seen.complete, e.seen.left, e.seen.err, text)
	}
}

// rest says how many requests are not judged, and names some.
func (l *ledger) rest() (n int, some []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.open {
		if len(some) < 5 {
			what := "the client is not done"
			if e.seen != nil {
				what = "it is not in the log"
			}
			some = append(some, what+": "+e.plan.String())
		}
	}
	return len(l.open), some
}

// judge says what is wrong with what became of a request, "" where nothing is.
func (e *entry) judge() string {
	p, s := e.plan, e.seen
	if p.Asks != completion {
		return p.Asks.judge(s)
	}
	line := e.line
	switch {
	case s.err != nil && !s.left:
		return "the client's answer cannot be read"
	case line.Complete && !e.delivered && p.Model != modelDemo:
		return "the log says that the answer was complete, which no provider gave"
	case s.complete && !line.Complete:
		return "the client's answer was complete, and the log says that it was not"
	case line.Complete && (p.Model == modelOpenAI || p.Model == modelAnthropic) && (line.Prompt != p.prompt || line.Completion != p.completion):
		return fmt.Sprintf("the tokens are not those of the provider, %d and %d", p.prompt, p.completion)
	case p.leaves() || p.Conduct == Stalled:
		return e.judgeDeparture()
	case s.status != line.Status || s.code != line.Code:
		return "the log says something else than the client saw"
	case s.complete:
		if !p.mayComplete() {
			return "an answer that failed was complete"
		}
		return ""
	case line.Complete:
		return "the log says that the answer was complete, and the client had no end"
	}
	if w := p.failure(s); w != "" {
		return w
	}
	return ""
}

// judge is for requests that are answered without a provider.
func (a asks) judge(s *seen) string {
	want := map[asks]seen{
		models: {status: 200, complete: true}, noKey: {status: 401, code: "missing_api_key"}, wrongKey: {status: 401, code: "invalid_api_key"},
		unknownModel: {status: 404, code: "model_not_found"}, brokenJSON: {status: 400}, noHTTP: {status: 400, code: "bad_request"},
	}[a]
	if *s != want {
		return fmt.Sprintf("expected %+v", want)
	}
	return ""
}

// judgeDeparture is for a client that went, or that was cut for it did not read.
func (e *entry) judgeDeparture() string {
	p, s, line := e.plan, e.seen, e.line
	gone := line.Status == 499 && line.Code == "client_closed_request" && !line.Complete
	finished := line.Status == 200 && line.Code == "" && line.Complete
	switch {
	case gone && !s.complete:
		return ""
	case finished && p.Conduct != LeavesWaiting && p.Conduct != Stalled:
		// All of it was written before the gateway could notice the disconnect.
		return ""
	}
	return "the client disconnect is recorded wrong"
}

// mayComplete tells whether the client may have an answer in spite of the provider's fault.
func (p *Plan) mayComplete() bool {
	return p.Fault <= harmless || p.Model == modelEither
}

// failures are how faults look to a client, each as statuses or codes that it may get. A status of 200 is that of a
// stream that has begun.
var failures = map[Fault][]string{
	// Where all requests fail the breaker opens.
	Refused:      {"502 upstream_unreachable", "503 upstream_unavailable"},
	ResetsAtOnce: {"502 upstream_unreachable"},
	EndsAtOnce:   {"502 upstream_unreachable"},
	Status500:    {"502 upstream_error"},
	Status503:    {"503 overloaded"},
	Status429:    {"429 rate_limit_exceeded"},
	NoHTTP:       {"502 upstream_bad_answer"},
	Page:         {"502 upstream_bad_answer"},
	Mute:         {"504 upstream_timeout"},
	Resets:       {"200 upstream_stream_truncated", "502 upstream_stream_truncated", "502 upstream_unreachable"},
	Ends:         {"200 upstream_stream_truncated", "502 upstream_stream_truncated"},
	Hangs:        {"200 upstream_timeout", "504 upstream_timeout"},
	Garbles:      {"200 upstream_bad_answer", "502 upstream_bad_answer", "200 plugin_crashed", "502 plugin_crashed"},
	Incomplete:   {"200 upstream_stream_truncated", "502 upstream_stream_truncated"},
	Traps:        {"200 plugin_crashed", "502 plugin_crashed", "200 plugin_timeout", "502 plugin_timeout"},
}

// failure says what is wrong with how a request failed.
func (p *Plan) failure(s *seen) string {
	got := fmt.Sprintf("%d %s", s.status, s.code)
	switch {
	case p.Fault <= harmless:
		return "a request failed whose provider was well"
	case !slices.Contains(failures[p.Fault], got):
		return "a request failed otherwise than its provider: expected " + strings.Join(failures[p.Fault], " or ")
	case s.status == 200 && !p.Stream:
		return "an answer that is whole failed with the status of success"
	}
	return ""
}

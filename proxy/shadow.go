package proxy

import (
	"cmp"
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/failure"
	"github.com/sluice-gateway/sluice/proxy/internal/journal"
	"github.com/sluice-gateway/sluice/proxy/internal/ownership"
	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/shadow"
	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
)

// mirror sends copies of a request to shadow targets. They are sent right after the request itself, and then run
// independently: each copy has its own document, memory and goroutine. A copy is compared with the request after both
// have ended, never on the client's goroutine.
type mirror struct {
	shadows  []*routing.Shadow
	compared shadow.Comparison

	// Properties of the request, copied because the completion must not be used after it has ended. Everything else
	// that send reads of the completion does not change before that.
	requestedModel string // the model's name as requested
	document       []byte // the document as it was accepted; valid while an attempt at the request is being sent
	betas          []string
	loweredLimit   int64 // the token limit as lowered by budgets; 0 if they have not lowered it

	mu     sync.Mutex
	source *completion // the request to copy; nil once the copies have been sent or the request has ended
}

// shadowCopy is a copy of a request: a completion without a client.
type shadowCopy struct {
	*completion
	detached
	to        *routing.Shadow
	cancel    context.CancelCauseFunc
	compared  *shadow.Copy
	reserved  bool // the provider's limits and budgets permit it
	overLimit bool // the provider's limits or budgets do not permit it
}

// newMirror returns the mirror of a request if its routing decision includes shadow targets, else nil.
func newMirror(x *completion) *mirror {
	drawn := x.routed.decision.Shadows()
	if len(drawn) == 0 || x.references.Background { // nothing would settle the copy
		return nil
	}
	m := &mirror{
		compared: shadow.Comparison{Log: x.server.log, Request: x.record.RequestID, Model: x.record.Model},
		source:   x, requestedModel: x.request.Describe().Model, document: x.body, betas: x.betas, loweredLimit: x.holds.Lowered(),
	}
	if r, ok := x.request.(clientapi.RewritableRequest); ok {
		_, m.document = r.Document()
	}
	for _, i := range drawn {
		m.shadows = append(m.shadows, &x.policy.Shadows[i])
	}
	return m
}

// tap returns a recorder for one attempt's response.
func (m *mirror) tap() response.Tap {
	if m == nil {
		return nil
	}
	return new(shadow.Recorder)
}

// send sends the copies when it is first called, by an attempt that has sent the request.
func (m *mirror) send() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	x := m.source
	if m.source = nil; x == nil {
		return
	}
	for _, to := range m.shadows {
		m.copy(x, to)
	}
	m.document, m.betas = nil, nil
}

// copy sends a copy to a shadow target if capacity for copies is left. A panic does not affect the request.
func (m *mirror) copy(x *completion, to *routing.Shadow) {
	s, started := x.server, false
	defer rescue.Recover(func(p *rescue.Error) { s.logPanic(x.record.RequestID, p) })
	y := &completion{server: s, exchange: x.exchange, mirror: m}
	y.key, y.betas, y.http11, y.explain = nil, m.betas, true, false
	y.policy = &routing.Policy{Model: x.policy.Model, Targets: []routing.Target{to.Target}}
	y.references = ownership.References{Origin: x.references.Origin, Foreign: x.references.Foreign}
	y.holds.OpenCopy(s.newJournalID(), &x.holds)
	y.record = telemetry.Record{
		RequestID: x.record.RequestID, Trace: x.record.Trace, Key: x.record.Key, Model: x.record.Model, Provider: to.Target.Provider, Target: to.Target.Model,
		Began: s.now(), Attempts: 1, Stream: x.stream, Path: x.record.Path, Team: x.record.Team, Series: x.record.Series, Generation: x.record.Generation, Shadow: true,
	}
	if sampler := s.exporter.Sampler(); sampler != nil {
		y.record.Span = sampler.Copy(&x.record.Span, s.random(), s.random(), y.record.Began)
	}
	y.limiter = &s.admission.Copies
	y.users.Store(1)
	defer func() {
		if !started {
			y.holds.Reservation.Release()
			y.documents.release(s, y.api)
		}
	}()
	client := x.generation.providers[to.Target.Provider].client
	switch {
	case s.shadowContext.Err() != nil:
		to.Figures.End(shadow.Cancelled, 0)
		return
	case client != nil && !client.HasSpare(), !s.admission.AdmitCopy(&y.holds.Reservation, &y.counted, len(m.document)):
		to.Figures.End(shadow.Dropped, 0)
		return
	}
	y.body = append(s.buffers.Get(len(m.document)), m.document...)
	c := &shadowCopy{completion: y, to: to}
	c.ctx, c.cancel = context.WithCancelCause(s.shadowContext)
	c.compared = m.compared.Add(to.Target.Provider, to.Target.Model, to.Figures, c.cancel)
	y.generation.acquire()
	started = true
	go c.run()
}

// finish passes on the client's response for comparison after the request has ended. If the client disconnected, there
// is nothing to compare with, and the copies are cancelled.
func (m *mirror) finish(x *completion) {
	m.mu.Lock()
	m.source = nil // send does nothing from here on
	m.mu.Unlock()
	switch {
	case m.compared.Empty():
		return
	case x.disconnected:
		m.compared.Cancel(failure.ErrDisconnected)
		return
	}
	compare := m.compared.Finish(describeResponse(x, x.record.Status))
	if compare == nil {
		return
	}
	g, s, request := x.generation, x.server, x.record.RequestID
	g.acquire()
	go func() {
		defer g.release()
		defer rescue.Recover(func(p *rescue.Error) { s.logPanic(request, p) })
		compare()
	}()
}

// run serves the copy on its own goroutine.
func (c *shadowCopy) run() {
	s := c.server
	defer c.generation.release()
	defer rescue.Recover(func(p *rescue.Error) { s.logPanic(c.record.RequestID, p) })
	defer c.documents.release(s, c.api)
	defer c.holds.Reservation.Release()
	defer c.cancel(nil)
	c.attempt = &c.firstAttempt
	c.firstAttempt = attempt{
		workspace: newWorkspace(new(shadow.DiscardRenderer), true, nil), completion: c.completion, wait: c, shadow: true,
		provider: c.generation.providers[c.to.Target.Provider],
		trial:    trial{target: &c.to.Target, recorded: true, number: 1, startedAt: c.record.Began},
	}
	defer c.translation.Reset()
	defer c.closeUpstream()
	c.end(c.respond())
}

// respond sends the copy, and reads the response to its end.
func (c *shadowCopy) respond() (err error) {
	defer rescue.Into(&err)
	if e := c.parse(); e != nil {
		return e
	}
	if e := c.holds.CheckPriced(c.target); e != nil {
		c.overLimit = true
		return e
	}
	held, e := c.holds.HoldTarget(c.request, c.target, c.stream, c.startedAt)
	if e != nil {
		c.overLimit = true
		return e
	}
	c.held, c.reserved = held, true
	if e := c.prepare(); e != nil {
		return e
	}
	if err := c.sendRequest(); err != nil {
		return err
	}
	if err := c.readResponse(c.ctx); err != nil {
		return err
	}
	if failed := c.writer.Failed(); failed != nil {
		return failed
	}
	c.drainBody()
	return nil
}

// parse parses the document, which has already been accepted, and adapts the request to the model as for the client.
func (c *shadowCopy) parse() *apierror.Error {
	c.request = c.api.getRequest()
	limits := clientapi.Limits{}
	switch r := c.request.(type) {
	case clientapi.AddressedRequest:
		r.Address(c.mirror.requestedModel, c.stream)
	case clientapi.RewritableRequest:
		limits = limits.Lowered() // the document may have been rewritten
	}
	if e := c.request.Parse(c.body, limits); e != nil {
		return e
	}
	if stateful, ok := c.request.(clientapi.StatefulRequest); ok {
		if e := stateful.Expand(c.record.Key); e != nil {
			return e
		}
	}
	e := c.request.FitModel(c.model.MaxTokens, c.model.Thinking, false)
	if lowered := c.mirror.loweredLimit; e == nil && lowered > 0 {
		e = c.request.FitModel(lowered, c.model.Thinking, false)
	}
	c.references.Find(c.request, c.api.API, c.api.id)
	if c.references.Comparable() {
		c.references.Compared.SetNull() // findReferences may have done so in the client's own document
	}
	return e
}

// end accounts the copy, which has ended with err, nil if it is complete.
func (c *shadowCopy) end(err error) {
	s, r, now := c.server, &c.record, c.startedAt
	recorder, _ := c.writer.Tap().(*shadow.Recorder)
	outcome := shadow.Answered
	r.Status, r.Complete = http.StatusOK, err == nil
	if err != nil {
		e := failure.ForClient(err)
		r.Code, r.Cause = cmp.Or(e.Code, string(e.Kind)), e.Cause
		if recorder == nil || !recorder.Began() || !c.stream {
			r.Status = e.Status
		}
		_, shed := failure.Shed(e)
		switch outcome = shadow.Failed; {
		case c.Gone():
			outcome = shadow.Cancelled
		case shed:
			outcome = shadow.Dropped
		case c.overLimit:
			outcome = shadow.Spent
		}
	}
	if s.account.Keeps() {
		defer func() {
			r.FirstEvent, r.UpstreamID, r.ResponseID = c.firstEvent, c.upstreamID, c.writer.ClientID()
			r.Tries = []telemetry.Attempt{{Provider: r.Provider, Target: r.Target, Began: c.startedAt, Took: now.Sub(c.startedAt), First: c.firstEvent, Code: r.Code, Cause: telemetry.CauseText(r.Cause), Plugin: c.provider.pluginUse(c.translation.Fuel)}}
			r.Ended = now
			s.account.Copy(r)
		}()
	}
	u, used, ok := c.usage()
	if c.Gone() && c.sent && c.response == nil {
		used = c.held.Cancelled()
		u.Cost = used.Cost
	}
	defer func() { // even if the rest panics
		defer c.to.Figures.End(outcome, used.Cost)
		c.held.Settle(used, now)
	}()
	now = s.now()
	s.logIfPanic(r.RequestID, err)
	c.endTape(err)
	if ok {
		r.Tokens, r.UsageEstimated, r.Cost, r.Priced = u.Tokens, u.Estimated, u.Cost, u.Priced
		c.recordUncertain(c.unknown(), used)
	}
	if c.reserved {
		c.holds.SettledAt, c.disconnected = now, outcome == shadow.Cancelled
		c.recordLedger(r, journal.Labels{Model: r.Model, Provider: r.Provider, Tags: "shadow"})
	}
	if outcome == shadow.Answered || outcome == shadow.Failed {
		c.compared.Finish(describeResponse(c.completion, r.Status))
	}
}

// describeResponse describes the response to a request or to its copy for the comparison.
func describeResponse(x *completion, status int) *shadow.Response {
	u := x.writer.Accounted()
	r := &shadow.Response{
		Status: status, Complete: x.writer.Complete(), Prompt: u.Prompt, Completion: u.Completion,
		FirstEvent: x.firstEvent, Duration: x.server.now().Sub(x.startedAt),
	}
	if t, ok := x.writer.Tap().(*shadow.Recorder); ok {
		t.Describe(r)
	}
	return r
}

// Tick implements waiter.
func (c *shadowCopy) Tick(upstream.Phase, time.Duration) error {
	if err := context.Cause(c.ctx); err != nil {
		return err
	}
	return c.checkEventTimeout(c.server.now())
}

// Pace implements waiter.
func (c *shadowCopy) Pace() time.Duration { return c.detached.Pace() }

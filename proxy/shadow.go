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
	"github.com/sluice-gateway/sluice/proxy/internal/holds"
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

// shadowCopy is a copy of a request: an attempt without a client, at an exchange and with documents of its own.
type shadowCopy struct {
	attempt
	detached
	server    *Server
	mirror    *mirror
	record    telemetry.Record
	holds     holds.Holds
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

// sender returns the function that sends the copies; nil if there are none.
func (m *mirror) sender() func() {
	if m == nil {
		return nil
	}
	return m.send
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
	asked := x.exchange
	asked.betas, asked.began, asked.http11, asked.explain = m.betas, s.now(), true, false
	asked.policy = &routing.Policy{Model: x.policy.Model, Targets: []routing.Target{to.Target}}
	asked.references = ownership.References{Origin: x.references.Origin, Foreign: x.references.Foreign}
	c := &shadowCopy{server: s, mirror: m, to: to}
	c.holds.OpenCopy(s.newJournalID(), &x.holds)
	c.record = telemetry.Record{
		RequestID: x.record.RequestID, Trace: x.record.Trace, Key: x.record.Key, Model: x.record.Model, Provider: to.Target.Provider, Target: to.Target.Model,
		Began: asked.began, Attempts: 1, Stream: x.stream, Path: x.record.Path, Team: x.record.Team, Series: x.record.Series, Generation: x.record.Generation, Shadow: true,
	}
	if sampler := s.exporter.Sampler(); sampler != nil {
		c.record.Span = sampler.Copy(&x.record.Span, s.random(), s.random(), asked.began)
		asked.span = c.record.Span
	}
	c.attempt = attempt{
		services: &s.services, exchange: &asked, documents: &documents{limiter: &s.admission.Copies}, memory: &c.holds.Reservation, shadow: true,
		provider: x.generation.providers[to.Target.Provider],
		trial:    trial{target: &to.Target, recorded: true, number: 1, startedAt: asked.began},
	}
	c.documents.users.Store(1)
	defer func() {
		if !started {
			c.holds.Reservation.Release()
			c.documents.release(c.services, asked.api)
		}
	}()
	client := c.provider.client
	switch {
	case s.shadowContext.Err() != nil:
		to.Figures.End(shadow.Cancelled, 0)
		return
	case client != nil && !client.HasSpare(), !s.admission.AdmitCopy(&c.holds.Reservation, &c.documents.counted, len(m.document)):
		to.Figures.End(shadow.Dropped, 0)
		return
	}
	c.documents.body = append(s.buffers.Get(len(m.document)), m.document...)
	c.ctx, c.cancel = context.WithCancelCause(s.shadowContext)
	c.wait = c
	c.compared = m.compared.Add(to.Target.Provider, to.Target.Model, to.Figures, c.cancel)
	asked.configuration.acquire()
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
	compare := m.compared.Finish(describeResponse(x.attempt, x.record.Status))
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
	defer c.exchange.configuration.release()
	defer rescue.Recover(func(p *rescue.Error) { s.logPanic(c.record.RequestID, p) })
	defer c.documents.release(c.services, c.exchange.api)
	defer c.holds.Reservation.Release()
	defer c.cancel(nil)
	c.workspace = newWorkspace(new(shadow.DiscardRenderer), true, nil)
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
	held, e := c.holds.HoldTarget(c.documents.request, c.target, c.exchange.stream, c.startedAt)
	if e != nil {
		c.overLimit = true
		return e
	}
	c.held, c.reserved = held, true
	if e := c.prepare(c.mirror.tap(), nil); e != nil {
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
	x, d := c.exchange, c.documents
	d.request = x.api.getRequest()
	limits := clientapi.Limits{}
	switch r := d.request.(type) {
	case clientapi.AddressedRequest:
		r.Address(c.mirror.requestedModel, x.stream)
	case clientapi.RewritableRequest:
		limits = limits.Lowered() // the document may have been rewritten
	}
	if e := d.request.Parse(d.body, limits); e != nil {
		return e
	}
	if stateful, ok := d.request.(clientapi.StatefulRequest); ok {
		if e := stateful.Expand(x.key.Name()); e != nil {
			return e
		}
	}
	e := d.request.FitModel(x.model.MaxTokens, x.model.Thinking, false)
	if lowered := c.mirror.loweredLimit; e == nil && lowered > 0 {
		e = d.request.FitModel(lowered, x.model.Thinking, false)
	}
	x.references.Find(d.request, x.api.API, x.api.id)
	if x.references.Comparable() {
		x.references.Compared.SetNull() // findReferences may have done so in the client's own document
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
		if recorder == nil || !recorder.Began() || !c.exchange.stream {
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
		recordUncertain(r, c.unknown(), used)
	}
	if c.reserved {
		c.holds.SettledAt = now
		recordLedger(s.books, &c.holds, r, journal.Labels{Model: r.Model, Provider: r.Provider, Tags: "shadow"}, outcome == shadow.Cancelled, false)
	}
	if outcome == shadow.Answered || outcome == shadow.Failed {
		c.compared.Finish(describeResponse(&c.attempt, r.Status))
	}
}

// describeResponse describes the response to a request or to its copy for the comparison.
func describeResponse(a *attempt, status int) *shadow.Response {
	u := a.writer.Accounted()
	r := &shadow.Response{
		Status: status, Complete: a.writer.Complete(), Prompt: u.Prompt, Completion: u.Completion,
		FirstEvent: a.firstEvent, Duration: a.services.now().Sub(a.startedAt),
	}
	if t, ok := a.writer.Tap().(*shadow.Recorder); ok {
		t.Describe(r)
	}
	return r
}

// Tick implements waiter.
func (c *shadowCopy) Tick(upstream.Phase, time.Duration) error {
	if err := context.Cause(c.ctx); err != nil {
		return err
	}
	return c.checkEventTimeout(c.services.now())
}

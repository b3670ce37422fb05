package proxy

import (
	"cmp"
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/exchange"
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
	exchange.Attempt
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
	if len(drawn) == 0 || x.References.Background { // nothing would settle the copy
		return nil
	}
	m := &mirror{
		compared: shadow.Comparison{Log: x.server.Log, Request: x.record.RequestID, Model: x.record.Model},
		source:   x, requestedModel: x.Request.Describe().Model, document: x.Body, betas: x.Betas, loweredLimit: x.holds.Lowered(),
	}
	if r, ok := x.Request.(clientapi.RewritableRequest); ok {
		_, m.document = r.Document()
	}
	for _, i := range drawn {
		m.shadows = append(m.shadows, &x.Policy.Shadows[i])
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
	asked, began := x.Exchange, s.Now()
	asked.Betas, asked.Created, asked.Span, asked.HTTP11, asked.Explain = m.betas, began.Unix(), nil, true, false
	asked.Policy = &routing.Policy{Model: x.Policy.Model, Targets: []routing.Target{to.Target}}
	asked.References = ownership.References{Origin: x.References.Origin, Foreign: x.References.Foreign}
	c := &shadowCopy{server: s, mirror: m, to: to}
	c.holds.OpenCopy(s.newJournalID(), &x.holds)
	c.record = telemetry.Record{
		RequestID: x.record.RequestID, Trace: x.record.Trace, Key: x.record.Key, Model: x.record.Model, Provider: to.Target.Provider, Target: to.Target.Model,
		Began: began, Attempts: 1, Stream: x.Stream, Path: x.record.Path, Team: x.record.Team, Series: x.record.Series, Generation: x.record.Generation, Config: x.record.Config, Shadow: true,
	}
	if sampler := s.exporter.Sampler(); sampler != nil {
		c.record.Span = sampler.Copy(&x.record.Span, s.random(), s.random(), began)
		asked.Span = &c.record.Span
	}
	c.Attempt = exchange.Attempt{
		Services: &s.Services, Exchange: &asked, Documents: &exchange.Documents{Limiter: &s.Admission.Copies}, Memory: &c.holds.Reservation, Shadow: true,
		Provider: x.generation.providers[to.Target.Provider],
		Trial:    exchange.Trial{Target: &to.Target, Recorded: true, Number: 1, StartedAt: began},
	}
	c.Documents.Users.Store(1)
	defer func() {
		if !started {
			c.holds.Reservation.Release()
			c.Documents.Release(c.Services, asked.API)
		}
	}()
	client := c.Provider.Client
	switch {
	case s.shadowContext.Err() != nil:
		to.Figures.End(shadow.Cancelled, 0)
		return
	case client != nil && !client.HasSpare(), !s.Admission.AdmitCopy(&c.holds.Reservation, &c.Documents.Counted, len(m.document)):
		to.Figures.End(shadow.Dropped, 0)
		return
	}
	c.Documents.Body = append(s.Buffers.Get(len(m.document)), m.document...)
	c.ctx, c.cancel = context.WithCancelCause(s.shadowContext)
	c.Wait = c
	c.compared = m.compared.Add(to.Target.Provider, to.Target.Model, to.Figures, c.cancel)
	asked.Configuration.Acquire()
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
	case x.Disconnected:
		m.compared.Cancel(failure.ErrDisconnected)
		return
	}
	compare := m.compared.Finish(describeResponse(x.Attempt, x.record.Status))
	if compare == nil {
		return
	}
	g, s, request := x.generation, x.server, x.record.RequestID
	g.Acquire()
	go func() {
		defer g.Release()
		defer rescue.Recover(func(p *rescue.Error) { s.logPanic(request, p) })
		compare()
	}()
}

// run serves the copy on its own goroutine.
func (c *shadowCopy) run() {
	s := c.server
	defer c.Exchange.Configuration.Release()
	defer rescue.Recover(func(p *rescue.Error) { s.logPanic(c.record.RequestID, p) })
	defer c.Documents.Release(c.Services, c.Exchange.API)
	defer c.holds.Reservation.Release()
	defer c.cancel(nil)
	c.Workspace = exchange.NewWorkspace(new(shadow.DiscardRenderer), true, nil)
	defer c.Translation.Reset()
	defer c.CloseUpstream()
	c.end(c.respond())
}

// respond sends the copy, and reads the response to its end.
func (c *shadowCopy) respond() (err error) {
	defer rescue.Into(&err)
	if e := c.parse(); e != nil {
		return e
	}
	if e := c.holds.CheckPriced(c.Target); e != nil {
		c.overLimit = true
		return e
	}
	held, e := c.holds.HoldTarget(c.Documents.Request, c.Target, c.Exchange.Stream, c.StartedAt)
	if e != nil {
		c.overLimit = true
		return e
	}
	c.Held, c.reserved = held, true
	if e := c.Prepare(c.mirror.tap(), nil); e != nil {
		return e
	}
	if err := c.SendRequest(); err != nil {
		return err
	}
	if err := c.Read(c.ctx); err != nil {
		return err
	}
	if failed := c.Writer.Failed(); failed != nil {
		return failed
	}
	c.DrainBody()
	return nil
}

// parse parses the document, which has already been accepted, and adapts the request to the model as for the client.
func (c *shadowCopy) parse() *apierror.Error {
	x, d := c.Exchange, c.Documents
	d.Request = x.API.GetRequest()
	limits := clientapi.Limits{}
	switch r := d.Request.(type) {
	case clientapi.AddressedRequest:
		r.Address(c.mirror.requestedModel, x.Stream)
	case clientapi.RewritableRequest:
		limits = limits.Lowered() // the document may have been rewritten
	}
	if e := d.Request.Parse(d.Body, limits); e != nil {
		return e
	}
	if stateful, ok := d.Request.(clientapi.StatefulRequest); ok {
		if e := stateful.Expand(x.Key.Name()); e != nil {
			return e
		}
	}
	e := d.Request.FitModel(x.Model.MaxTokens, x.Model.Thinking, false)
	if lowered := c.mirror.loweredLimit; e == nil && lowered > 0 {
		e = d.Request.FitModel(lowered, x.Model.Thinking, false)
	}
	x.References.Find(d.Request, x.API.API, x.API.ID)
	if x.References.Comparable() {
		x.References.Compared.SetNull() // findReferences may have done so in the client's own document
	}
	return e
}

// end accounts the copy, which has ended with err, nil if it is complete.
func (c *shadowCopy) end(err error) {
	s, r, now := c.server, &c.record, c.StartedAt
	recorder, _ := c.Writer.Tap().(*shadow.Recorder)
	outcome := shadow.Answered
	r.Status, r.Complete = http.StatusOK, err == nil
	if err != nil {
		e := failure.ForClient(err)
		r.Code, r.Cause = cmp.Or(e.Code, string(e.Kind)), e.Cause
		if recorder == nil || !recorder.Began() || !c.Exchange.Stream {
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
			r.FirstEvent, r.UpstreamID, r.ResponseID = c.FirstEvent, c.UpstreamID, c.Writer.ClientID()
			r.Tries = []telemetry.Attempt{{Provider: r.Provider, Target: r.Target, Began: c.StartedAt, Took: now.Sub(c.StartedAt), First: c.FirstEvent, Code: r.Code, Cause: telemetry.CauseText(r.Cause), Plugin: c.Provider.PluginUse(c.Translation.Fuel)}}
			r.Ended = now
			s.account.Copy(r)
		}()
	}
	u, used, ok := c.Usage()
	if c.Gone() && c.Sent && c.Response == nil {
		used = c.Held.Cancelled()
		u.Cost = used.Cost
	}
	defer func() { // even if the rest panics
		defer c.to.Figures.End(outcome, used.Cost)
		c.Held.Settle(used, now)
	}()
	now = s.Now()
	s.logIfPanic(r.RequestID, err)
	c.EndTape(err)
	if ok {
		r.Tokens, r.UsageEstimated, r.Cost, r.Priced = u.Tokens, u.Estimated, u.Cost, u.Priced
		recordUncertain(r, c.Unknown(), used)
	}
	if c.reserved {
		c.holds.SettledAt = now
		recordLedger(s.books, &c.holds, r, journal.Labels{Model: r.Model, Provider: r.Provider, Tags: "shadow"}, outcome == shadow.Cancelled, false)
	}
	if outcome == shadow.Answered || outcome == shadow.Failed {
		c.compared.Finish(describeResponse(&c.Attempt, r.Status))
	}
}

// describeResponse describes the response to a request or to its copy for the comparison.
func describeResponse(a *exchange.Attempt, status int) *shadow.Response {
	u := a.Writer.Accounted()
	r := &shadow.Response{
		Status: status, Complete: a.Writer.Complete(), Prompt: u.Prompt, Completion: u.Completion,
		FirstEvent: a.FirstEvent, Duration: a.Services.Now().Sub(a.StartedAt),
	}
	if t, ok := a.Writer.Tap().(*shadow.Recorder); ok {
		t.Describe(r)
	}
	return r
}

// Tick implements exchange.Waiter.
func (c *shadowCopy) Tick(upstream.Phase, time.Duration) error {
	if err := context.Cause(c.ctx); err != nil {
		return err
	}
	return c.CheckEventTimeout(c.Services.Now())
}

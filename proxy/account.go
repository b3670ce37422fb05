package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/breaker"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/endpoint"
	"github.com/sluice-gateway/sluice/proxy/internal/estimate"
	"github.com/sluice-gateway/sluice/proxy/internal/failure"
	"github.com/sluice-gateway/sluice/proxy/internal/httpfield"
	"github.com/sluice-gateway/sluice/proxy/internal/journal"
	"github.com/sluice-gateway/sluice/proxy/internal/openai"
	"github.com/sluice-gateway/sluice/proxy/internal/recording"
	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/canary"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// scopes returns the accounts of the request's key, team and model.
func (x *completion) scopes() spend.Scopes {
	a := x.generation.accounts
	return spend.Scopes{
		spend.Key:   a.Account(spend.Key, x.key.Name()),
		spend.Team:  a.Account(spend.Team, x.key.Team()),
		spend.Model: a.Account(spend.Model, x.model.ID),
	}
}

// reserve reserves what the request may need on the accounts of its key, team and model, until finish settles it.
func (x *completion) reserve(scopes spend.Scopes) *apierror.Error {
	x.admittedAt = x.server.now()
	x.need.Request = x.journalID()
	e := x.hold.Reserve(scopes, &x.need, x.admittedAt)
	if e != nil {
		x.countLimit(e)
	}
	return e
}

// limitRejections maps limits to the labels under which rejections are counted.
var limitRejections = [...]telemetry.Rejection{
	spend.LimitRequests: telemetry.RejectedRequests, spend.LimitTokens: telemetry.RejectedTokens, spend.LimitConcurrent: telemetry.RejectedConcurrent,
	spend.LimitBudget: telemetry.RejectedBudget,
}

// countLimit counts a request that a limit has rejected.
func (x *completion) countLimit(e *apierror.Error) {
	if limit, ok := errors.AsType[*spend.LimitError](e.Cause); ok {
		m, reason := x.server.metrics, limitRejections[limit.Limit]
		m.RejectKey(x.key.Name(), reason)
		switch limit.Scope.Kind {
		case spend.Team:
			m.RejectTeam(limit.Scope.Name, reason)
		case spend.Model:
			m.RejectModel(limit.Scope.Name, reason)
		}
	}
}

// insertLimit inserts a token limit into the client's document, which has none, and parses the document again.
func (x *completion) insertLimit(to endpoint.ID, tokens int64) *apierror.Error {
	s, warnings := x.server, slices.Clone(x.request.Describe().Warnings)
	chat, isChat := x.request.(*openai.Request)
	old, own := x.body, x.body
	if isChat {
		own = chat.Body
	}
	body, err := estimate.AppendWithLimit(s.buffers.Get(len(own)+64), own, x.api.Limit, tokens)
	if err != nil {
		s.buffers.Put(body)
		return failure.Internal(err)
	}
	x.body = body
	if e := x.limiter.Grow(&x.counted, len(old)+len(body)); e != nil {
		s.buffers.Put(old)
		return e
	}
	var e *apierror.Error
	if isChat {
		e = chat.Replace(body, clientapi.Limits{}.Lowered())
	} else {
		_, e = x.parseRequest(to)
	}
	s.buffers.Put(old)
	if e != nil {
		return e
	}
	r := x.request.Describe()
	for _, w := range warnings {
		r.Warn(w.Kind, w.Member)
	}
	return x.request.FitModel(x.model.MaxTokens, x.model.Thinking, false)
}

// holdProvider reserves what an attempt may need on its provider's account. It does not lower the response's token
// limit to what the provider has left, because another target may serve the request unchanged.
func (x *completion) holdProvider(t *routing.Target, now time.Time) (*spend.Hold, *apierror.Error) {
	scopes := spend.Scopes{spend.Provider: x.generation.accounts.Account(spend.Provider, t.Provider)}
	if scopes[spend.Provider] == nil {
		return nil, nil
	}
	n := estimate.Rates(x.request.Describe(), x.model.DefaultMaxTokens)
	n.MaxTokens, n.Request = x.maxTokens, x.journalID()
	if scopes.Budgeted() {
		prompt := estimate.Prompt(x.request)
		estimate.AddTarget(&n, x.request, &prompt, t, x.model.MaxImageTokens)
		n.Fixed, n.MaxTokens = n.Ceiling(), 0
	}
	h := new(spend.Hold)
	return h, h.Reserve(scopes, &n, now)
}

// reserveAgain reserves for a hedge as much as the first attempt has reserved, and reports whether that much is left.
func (x *completion) reserveAgain(now time.Time) bool {
	need := x.need
	need.Again = true
	if need.MaxTokens > 0 {
		need.MaxTokens = x.maxTokens // as in the document
	}
	x.hedgeHold = new(spend.Hold)
	if x.hedgeHold.Reserve(x.scopes(), &need, now) != nil {
		return false
	}
	if x.hedgeHold.Lowered() > 0 { // both attempts are sent the same document
		x.hedgeHold.Settle(spend.Used{}, now)
		return false
	}
	return true
}

// failedUsage is the usage of attempts whose response is not used.
type failedUsage struct {
	unheld spend.Used // usage that has no hold of its own yet
	holds  []*spend.Hold
	used   []spend.Used // usage covered by each of holds
}

// countFailed counts the usage of an attempt whose response is not used: the tokens that its provider has counted, or
// an estimate from what has arrived.
func (x *completion) countFailed(a *attempt) spend.Used {
	if !a.writer.Used() {
		return spend.Used{}
	}
	u := a.writer.Accounted()
	used := spend.Used{Tokens: u.Total, Cost: u.Cost}
	x.record.FailedTokens += used.Tokens
	x.record.FailedCost = x.record.FailedCost.Plus(used.Cost)
	if x.failedUsage == nil {
		x.failedUsage = new(failedUsage)
	}
	x.failedUsage.unheld.Tokens += used.Tokens
	x.failedUsage.unheld.Cost = x.failedUsage.unheld.Cost.Plus(used.Cost)
	return used
}

// holdFailed moves the usage of failed attempts to a hold of its own until finish, so that the request's hold covers
// the next attempt. It reports whether the budgets permit that.
func (x *completion) holdFailed(now time.Time) bool {
	f := x.failedUsage
	if f == nil || f.unheld == (spend.Used{}) {
		return true
	}
	h := new(spend.Hold)
	n := spend.Need{Again: true, Request: x.journalID(), Fixed: f.unheld.Cost, Estimate: f.unheld.Cost}
	if h.Reserve(x.scopes(), &n, now) != nil {
		return false
	}
	f.holds, f.used = append(f.holds, h), append(f.used, f.unheld)
	f.unheld = spend.Used{}
	return true
}

// respond sends a non-streaming response, or starts a stream, which continues after the handler has returned.
func (x *completion) respond(ctx *fasthttp.RequestCtx) {
	s := x.server
	x.setRouteHeaders(&ctx.Response.Header)
	x.setRateLimitHeaders(&ctx.Response.Header)
	x.record.Status = fasthttp.StatusOK
	h := &ctx.Response.Header
	if !x.stream {
		h.SetContentType("application/json")
		if u := x.writer.Usage(); u.Priced {
			h.Set("x-gateway-cost", u.Cost.String())
		}
		ctx.Response.SwapBody(x.writer.AppendResponse(ctx.Response.SwapBody(nil)[:0]))
		x.record.Bytes = int64(len(ctx.Response.Body()))
		return
	}
	h.SetContentType("text/event-stream; charset=utf-8")
	h.Set("cache-control", "no-cache")
	h.Set("x-accel-buffering", "no")
	h.SetContentLength(-1)
	last := h.ConnectionClose() || ctx.Request.Header.ConnectionClose()
	if last {
		h.SetConnectionClose()
	}
	x.chunks.Start(x.conn, &s.buffers, h.Header(), last)
	s.metrics.StartStream()
}

// respondCount responds with the number of tokens of the request, which is estimated without a provider.
func (x *completion) respondCount(ctx *fasthttp.RequestCtx) {
	x.setRouteHeaders(&ctx.Response.Header)
	x.setRateLimitHeaders(&ctx.Response.Header)
	ctx.Response.Header.Set("x-gateway-warning", "estimated input_tokens")
	ctx.SetContentType("application/json")
	ctx.Response.SetBodyRaw(x.api.AppendCount(nil, x.request.(clientapi.CountRequest).EstimateTokens()))
	x.record.Status, x.record.Bytes = fasthttp.StatusOK, int64(len(ctx.Response.Body()))
}

// maxWarnings bounds the length of x-gateway-warning, roughly. Some clients accept no more than 8 KiB of headers.
const maxWarnings = 1 << 10

// setRouteHeaders sets response headers that name the target and list the changes to the request.
func (x *completion) setRouteHeaders(h *fasthttp.ResponseHeader) {
	set := func(name, value string) {
		if value != "" && httpfield.VisibleASCII(strings.ReplaceAll(value, " ", "")) {
			h.Set(name, value)
		}
	}
	set("x-gateway-model", x.record.Model)
	if x.explain && x.routed != nil {
		h.SetBytesV("x-gateway-route", appendRoute(nil, x.random, &x.routed.decision))
	}
	if x.record.Attempts == 0 {
		return
	}
	set("x-gateway-provider", x.record.Provider)
	set("x-gateway-attempts", strconv.Itoa(x.record.Attempts))
	set("x-upstream-request-id", x.upstreamID)
	if w := x.warnings(); len(w) > 0 {
		set("x-gateway-warning", strings.Join(w, ", "))
	}
}

// maxRoute is the maximum length of x-gateway-route.
const maxRoute = 2 << 10

// appendRoute appends a routing decision as a header value. The random number comes first, so that it is never cut off.
// A value that is too long is cut between two elements.
func appendRoute(dst []byte, random uint64, d *routing.Decision) []byte {
	dst = d.AppendLine(fmt.Appendf(dst, "random %016x; ", random))
	if len(dst) > maxRoute {
		cut := dst[:maxRoute-len("...")]
		cut = cut[:max(bytes.LastIndex(cut, []byte("; ")), bytes.LastIndex(cut, []byte(", ")))+len("; ")]
		dst = append(cut, "..."...)
	}
	return dst
}

// warnings lists what the gateway and the plugin have changed in the request.
func (x *completion) warnings() (w []string) {
	for _, warning := range x.request.Describe().Warnings {
		w = append(w, warningWords[warning.Kind]+" "+warning.Member)
	}
	if x.translated {
		for _, warning := range x.chatForm.warnings {
			w = append(w, warningWords[warning.Kind]+" "+warning.Member)
		}
	}
	for _, warning := range x.translation.Warnings {
		w = append(w, warningWords[warning.Kind]+" "+warning.Member)
	}
	size := 0
	for i, words := range w {
		if size += len(words) + len(", "); size > maxWarnings {
			return append(w[:i], strconv.Itoa(len(w)-i)+" more")
		}
	}
	return w
}

var warningWords = [abi.WarnKinds]string{abi.WarnDropped: "dropped", abi.WarnClamped: "clamped", abi.WarnChanged: "changed"}

// setRateLimitHeaders sets response headers with what remains of the key's rate limits.
func (x *completion) setRateLimitHeaders(h *fasthttp.ResponseHeader) {
	if x.key == nil {
		return
	}
	account := x.generation.accounts.Account(spend.Key, x.key.Name())
	if account == nil {
		return
	}
	s := account.Remaining(x.server.now())
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	if l := s.Limits.RequestsPerMinute; l > 0 {
		h.Set("x-ratelimit-limit-requests", number(l))
		h.Set("x-ratelimit-remaining-requests", number(s.Requests))
		h.Set("x-ratelimit-reset-requests", formatDuration(s.RequestsReset))
	}
	if l := s.Limits.TokensPerMinute; l > 0 {
		h.Set("x-ratelimit-limit-tokens", number(l))
		h.Set("x-ratelimit-remaining-tokens", number(s.Tokens))
		h.Set("x-ratelimit-reset-tokens", formatDuration(s.TokensReset))
	}
}

// formatDuration formats a duration as the OpenAI API does: 6m0s, 1.5s, 20ms, or 0s.
func formatDuration(d time.Duration) string { return d.Round(time.Millisecond).String() }

// startTape starts to record the attempt if its provider is being recorded.
func (a *attempt) startTape() {
	x := a.completion
	if a.tape = x.server.recorder.Start(a.provider.name); a.tape == nil {
		return
	}
	s := &a.translation.Summary
	a.tape.Redact = x.generation.newFileRedactor(x.presented)
	a.tape.SetRequest(recording.Request{
		Form: s.Form, ClientForm: s.ClientForm, Betas: s.Betas, Target: s.Target, MaxTokens: s.MaxTokens, DefaultMaxTokens: s.DefaultMaxTokens,
		Options: s.Options, Stream: x.stream, Body: a.translation.Request.Body,
	})
}

// endTape ends the attempt's recording and hands it over. err is the error that ended the attempt, nil if the response
// was read as far as it was needed.
func (a *attempt) endTape(err error) {
	if a.tape == nil {
		return
	}
	how := recording.Ended
	if broken, ok := errors.AsType[*upstream.Error](err); ok && broken.Phase == upstream.PhaseBody {
		how = recording.Truncated
	}
	if a.wait.Gone() && !a.writer.Complete() {
		how = recording.Disconnected
	}
	a.tape.End(how)
	a.tape = nil
}

// recordTarget records the attempt's target for the log and, if a connection to its provider was requested, for the
// retry budget.
func (x *completion) recordTarget(a *attempt) {
	x.record.Provider, x.record.Target = a.target.Provider, a.target.Model
	if a.dispatched {
		x.triedBudgets = append(x.triedBudgets, a.target.Budget)
	}
}

// logFailedAttempt logs why an attempt failed, because the access log shows only the last one. The error's message is
// left out: it may be the provider's, and repeat the prompt.
func (x *completion) logFailedAttempt(a *attempt, e *apierror.Error) {
	if a.logged {
		return
	}
	a.logged = true
	t := a.target
	attrs := []slog.Attr{
		slog.String("request", x.record.RequestID), slog.String("model", x.record.Model), slog.String("provider", t.Provider),
		slog.String("target", t.Model), slog.Int("attempt", a.number), slog.Int("status", e.Status), slog.String("code", e.Code),
	}
	if e.Cause != nil {
		attrs = append(attrs, slog.String("cause", e.Cause.Error()))
	}
	x.server.log.LogAttrs(context.Background(), slog.LevelWarn, "attempt failed", attrs...)
}

// readErrorUsage reads the token counts that a few providers include in error responses.
func (a *attempt) readErrorUsage(body []byte) {
	if !bytes.Contains(body, []byte(`"usage`)) {
		return
	}
	a.reader.Reset(false)
	a.batch.Reset()
	if a.reader.ReadResponse(body, &a.batch) == nil && a.batch.Failure() != nil {
		_ = a.writer.Apply(&a.batch) // uses only the token counts of a failure
	}
}

// recordError records that the attempt ended with an error. If the target is at fault, the status document shows it as
// the target's last error.
func (a *attempt) recordError(e *apierror.Error) {
	if a.recorded || a.target == nil {
		return
	}
	if a.canary != nil {
		if o, known := failure.CanaryOutcome(e); known {
			a.canary.Record(o, a.completion.server.now())
		}
	}
	outcome, cooldown := failure.Outcome(e)
	if outcome != routing.Inconclusive || e.UpstreamStatus != 0 {
		last := routing.LastError{At: a.completion.server.now(), Code: e.Code, Text: failure.PublicCause(e.Cause)}
		if last.Code == "" || last.Code != telemetry.Code(last.Code) {
			last.Code = string(e.Kind) // a code of the provider's own may contain anything
		}
		a.target.RecordError(last)
	}
	a.recordOutcome(outcome, cooldown)
}

// recordOutcome records the attempt's outcome in the target's statistics, once. cooldown is how long the provider asked
// not to receive requests, 0 if it did not.
func (a *attempt) recordOutcome(o routing.Outcome, cooldown time.Duration) {
	if a.recorded || a.target == nil {
		return
	}
	t, log, now := a.target, a.completion.server.log, a.completion.server.now()
	a.recorded = true
	if o == routing.Succeeded && a.canary != nil {
		a.canary.Record(canary.Succeeded, now)
	}
	switch t.EndAttempt(a.ticket, o, cooldown, a.firstEvent, now) {
	case breaker.Opened:
		wait, _ := t.Wait(now)
		log.Warn("circuit opened", "provider", t.Provider, "target", t.Model, "pause_ms", wait.Milliseconds())
	case breaker.Recovered:
		log.Info("circuit closed", "provider", t.Provider, "target", t.Model)
	}
}

// recordUsage records the usage of a complete response in the target's statistics, if the provider has counted it.
func (x *completion) recordUsage() {
	u := x.writer.Usage()
	if u.Estimated || !u.Known {
		return
	}
	used := routing.Usage{Prompt: u.Prompt, Cached: u.Cached, Completion: u.Completion, CountsCached: u.Has(abi.UsageCached, abi.UsageCachedBeside)}
	if x.framed {
		used.Streamed = x.finishedAt.Sub(x.startedAt) - x.firstEvent
	}
	x.target.RecordUsage(used)
}

// journalID returns the request's ID in the journal, and assigns it on the first call. It is 0 if there is no journal.
func (x *completion) journalID() uint64 {
	if x.ledgerID == 0 && x.server.books.Journal() != nil {
		x.ledgerID = journal.NewID()
	}
	return x.ledgerID
}

// recordLedger appends the completion to the ledger, if a provider was involved or the journal has a hold for it. It
// must be called before the hold is settled: see journal.Journal.Request.
func (x *completion) recordLedger(r *telemetry.Record, labels journal.Labels) {
	j := x.server.books.Journal()
	if j == nil || r.Attempts == 0 && !j.IsOpen(x.ledgerID) {
		return
	}
	j.Request(&journal.Request{
		ID: x.journalID(), At: x.finishedAt, Labels: labels,
		Tokens: r.Tokens, Cost: r.Cost.Plus(r.UnusedCost()), Estimated: r.UsageEstimated,
		Error: r.Status >= 400 && !x.disconnected || r.Status < 400 && r.Code != "", Incomplete: !r.Complete && (x.committed || x.disconnected),
	})
}

// tagText returns the request's tags for reports: those of its key, and those set by filters.
func (x *completion) tagText() string {
	tags := x.key.TagText()
	if len(x.tags) > 0 {
		tags = strings.TrimSpace(tags + " " + strings.Join(x.tags, " "))
	}
	return tags
}

// finish accounts the completion and releases what it holds. Every path ends here, and only the first call has an
// effect.
func (x *completion) finish() {
	if x.finished {
		return
	}
	x.finished = true
	x.conn.FinishRequest()
	defer x.releaseAll()
	x.finishedAt = x.server.now()
	failed := x.writer.Failed()
	if failed != nil && x.committed && !x.disconnected {
		x.record.Code, x.record.Cause = failed.Code, failed.Cause
		if failed.Cause == nil && x.provider != nil {
			x.record.Cause = x.responseCause()
		}
	}
	x.endTape(nil)
	x.closeUpstream()
	x.recordResult(failed)
	r := &x.record
	var used spend.Used
	r.Complete = x.writer.Complete() && !x.disconnected
	if x.writer.Started() || x.writer.Complete() || x.disconnected && x.sent {
		// A client that left early still has to be charged for the prompt and for what arrived of the response.
		u := x.writer.Accounted()
		r.Tokens, r.UsageEstimated, r.Cost, r.Priced = u.Tokens, u.Estimated, u.Cost, u.Priced
		used = spend.Used{Tokens: u.Total, Cost: u.Cost}
	}
	r.Dropped = x.writer.Dropped()
	r.Fuel += x.translation.Fuel + x.chain.Fuel()
	r.Tags = strings.Join(x.tags, ",")
	if x.disconnected {
		r.Status, r.Code = 499, "client_closed_request"
	}
	r.FirstEvent, r.UpstreamID = x.firstEvent, x.upstreamID
	if x.mirror != nil {
		x.mirror.finish(x)
	}
	if x.key != nil { // else the client was not authenticated
		x.recordLedger(r, journal.Labels{Key: r.Key, Team: r.Team, Model: r.Model, Provider: r.Provider, Tags: x.tagText()})
	}
	x.providerHold.Settle(used, x.finishedAt)
	x.hold.Settle(x.settleFailed(used), x.finishedAt)
	if x.hedgeHold != nil {
		x.hedgeHold.Settle(spend.Used{Tokens: r.CancelledTokens, Cost: r.CancelledCost}, x.finishedAt)
	}
	r.Ended = x.finishedAt
	x.server.account.Request(r)
	x.api.putWorkspace(x.workspace)
	x.reader = nil
	x.workspace = nil
}

// recordResult records the outcome of the last attempt in its target's statistics. failed is the response's error, nil
// if it has none.
func (x *completion) recordResult(failed *apierror.Error) {
	switch {
	case x.target == nil:
	case x.disconnected:
		x.recordOutcome(routing.Inconclusive, 0)
	case failed != nil:
		x.recordError(failed)
	case x.writer.Complete():
		if x.passthrough && x.api.id == clientapi.Responses && x.server.responses != nil {
			x.server.responses.NoteTarget(x.record.Key, string(x.writer.ID()), x.target.FullName())
		}
		x.recordOutcome(routing.Succeeded, 0)
		x.recordUsage()
	default:
		// Only a panic ends a response in another way.
		x.recordOutcome(routing.Inconclusive, 0)
	}
}

// settleFailed settles the holds of failed attempts. It returns the usage to settle the request's own hold with: that
// of its response, and that of failed attempts without a hold of their own.
func (x *completion) settleFailed(used spend.Used) spend.Used {
	f := x.failedUsage
	if f == nil {
		return used
	}
	for i, h := range f.holds {
		h.Settle(f.used[i], x.finishedAt)
	}
	return spend.Used{Tokens: used.Tokens + f.unheld.Tokens, Cost: used.Cost.Plus(f.unheld.Cost)}
}

// releaseAll releases what other requests may be waiting for, even if accounting the completion has panicked.
func (x *completion) releaseAll() {
	x.server.metrics.AbandonRequest(&x.record)
	if x.chunks.Started() {
		x.server.metrics.EndStream()
	}
	x.reservation.Release()
	if x.generation != nil {
		defer x.generation.release()
	}
	x.closeUpstream()
	x.recordOutcome(routing.Inconclusive, 0) // no effect if it has been recorded
}

// Delivered finishes a completion after its response has been written completely or a write has failed. It implements
// downstream.Request.
func (x *completion) Delivered(failed bool) {
	x.disconnected = failed
	x.finishAsync()
}

// finishAsync calls finish outside of the handler, and recovers a panic, which nothing else would.
func (x *completion) finishAsync() {
	defer rescue.Recover(func(p *rescue.Error) { x.server.logPanic(x.record.RequestID, p) })
	x.finish()
}

package proxy

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/accounting"
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/breaker"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/failure"
	"github.com/sluice-gateway/sluice/proxy/internal/holds"
	"github.com/sluice-gateway/sluice/proxy/internal/httpfield"
	"github.com/sluice-gateway/sluice/proxy/internal/journal"
	"github.com/sluice-gateway/sluice/proxy/internal/recording"
	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/canary"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// limitRejections maps limits to the labels under which rejections are counted.
var limitRejections = [...]telemetry.Rejection{
	spend.LimitRequests: telemetry.RejectedRequests, spend.LimitTokens: telemetry.RejectedTokens, spend.LimitConcurrent: telemetry.RejectedConcurrent,
	spend.LimitBudget: telemetry.RejectedBudget,
}

// countLimit counts a request that a limit has rejected, and returns e. e may be nil.
func (x *completion) countLimit(e *apierror.Error) *apierror.Error {
	if e == nil {
		return nil
	}
	if limit, ok := errors.AsType[*spend.LimitError](e.Cause); ok {
		m, reason := x.server.metrics, limitRejections[limit.Limit]
		m.RejectKey(x.key.Series(), reason)
		switch limit.Scope.Kind {
		case spend.Team:
			m.RejectTeam(limit.Scope.Name, reason)
		case spend.Model:
			m.RejectModel(limit.Scope.Name, reason)
		}
	}
	return e
}

// countFailed counts the usage of an attempt whose response is not used, in the record and on the attempt's holds. hedge
// reports whether it has a hold of its own on the accounts of the key, the team and the model.
func (x *completion) countFailed(a *attempt, hedge bool) {
	_, used, ok := a.usage()
	now := x.server.now()
	a.accounted = true
	a.held.Settle(used, now)
	if hedge {
		x.holds.SettleHedge(used, now)
	}
	if ok {
		x.addFailed(a.unknown(), used, !hedge)
	}
}

// addFailed adds usage of an attempt whose response is not used, which may have shared the request's hold.
func (x *completion) addFailed(unknown bool, used spend.Used, shared bool) {
	x.record.FailedTokens += used.Tokens
	x.record.FailedCost = x.record.FailedCost.Plus(used.Cost)
	recordUncertain(&x.record, unknown, used)
	if shared {
		x.holds.AddFailed(used)
	}
}

// recordUncertain records the part of an attempt's usage that is booked because its outcome is unknown.
func recordUncertain(r *telemetry.Record, unknown bool, used spend.Used) {
	r.Uncertain = r.Uncertain || unknown
	r.UncertainCost = r.UncertainCost.Plus(used.Uncertain)
}

// respond sends a non-streaming response, or starts a stream, which continues after the handler has returned.
func (x *completion) respond(ctx *fasthttp.RequestCtx) {
	s := x.server
	x.setRouteHeaders(&ctx.Response.Header)
	x.generation.setRateLimitHeaders(&ctx.Response.Header, x.key, x.holds.User(), x.server.now())
	x.record.Status = fasthttp.StatusOK
	h := &ctx.Response.Header
	if !x.stream {
		x.recordOrigin()
		h.SetContentType("application/json")
		if u := x.writer.Usage(); u.Priced && !runsOn(x) {
			h.Set("x-gateway-cost", u.Cost.String())
		}
		ctx.Response.SwapBody(x.writer.AppendResponse(ctx.Response.SwapBody(nil)[:0]))
		x.record.Bytes = int64(len(ctx.Response.Body()))
		x.settle()
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
	x.generation.setRateLimitHeaders(&ctx.Response.Header, x.key, x.holds.User(), x.server.now())
	ctx.Response.Header.Set("x-gateway-warning", "estimated input_tokens")
	ctx.SetContentType("application/json")
	ctx.Response.SetBodyRaw(x.api.AppendCount(nil, x.request.(clientapi.CountRequest).EstimateTokens()))
	x.record.Status, x.record.Bytes = fasthttp.StatusOK, int64(len(ctx.Response.Body()))
}

// completeEmpty responds with an empty response, without calling a model.
func (x *completion) completeEmpty() *apierror.Error {
	x.writtenAt, x.provider, x.accounted = x.server.now(), new(provider), true
	x.writer.Reset(response.Options{
		Stream: true, ID: x.api.NewResponseID(), RequestID: x.record.RequestID, Model: x.model.ID, Created: x.record.Began.Unix(), Choices: 1,
	})
	x.renderer.Respond(x.request)
	x.batch.Reset()
	x.batch.Usage(abi.UsagePrompt, 0)
	x.batch.Usage(abi.UsageCompletion, 0)
	x.batch.Finish(0, abi.FinishStop, nil)
	x.batch.Done(abi.DoneNow)
	if err := x.writer.Apply(&x.batch); err != nil {
		return failure.Internal(err)
	}
	return nil
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
		x.record.Warnings = strings.Join(w, ", ")
		set("x-gateway-warning", x.record.Warnings)
	}
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

// startTape starts to record the attempt if its provider is being recorded.
func (a *attempt) startTape() {
	x := a.exchange
	if a.tape = a.services.recorder.Start(a.provider.name); a.tape == nil {
		return
	}
	s := &a.translation.Summary
	a.tape.Redact = x.configuration.newFileRedactor(x.presented)
	a.tape.SetRequest(recording.Request{
		Form: s.Form, ClientForm: s.ClientForm, Betas: s.Betas, Target: s.Target, MaxTokens: s.MaxTokens, DefaultMaxTokens: s.DefaultMaxTokens,
		Options: s.Options, Stream: x.stream, Body: a.translation.Request.Body,
	})
}

// recordText records a text that a filter has received.
func (x *completion) recordText(f *config.Filter, what abi.What, text []byte) {
	x.server.recorder.AddInput(recording.Input{Settings: f.Options, What: what, Text: text, Tags: f.Tags}, x.generation.newFileRedactor(x.presented))
}

// recordRouting records the document that describes the request to a router.
func (x *completion) recordRouting(r *routing.Router, document []byte) {
	x.server.recorder.AddInput(recording.Input{Settings: r.Settings, Document: document}, x.generation.newFileRedactor(x.presented))
}

// endTape ends the attempt's recording and hands it over. err is the error that ended the attempt, nil if the response
// was read as far as it was needed.
func (a *attempt) endTape(err error) {
	if a.tape == nil {
		return
	}
	how := recording.Ended
	if broken, ok := errors.AsType[*upstream.Error](err); ok && broken.Phase == upstream.PhaseBody && !a.follows() {
		how = recording.Truncated
	}
	if a.wait.Gone() && !a.writer.Complete() {
		how = recording.Disconnected
	}
	a.tape.End(how)
	a.tape = nil
}

// endAttempt records the outcome of an attempt in the routing decision and in the request's record: the code and status
// of its error e, or "" and 200. took is the time to the error or to the first event.
func (x *completion) endAttempt(a *attempt, code string, status int, took time.Duration, e *apierror.Error) {
	x.routed.decision.EndAttempt(a.entry, code, status, took)
	if len(x.record.Tries) < a.number {
		return
	}
	t := &x.record.Tries[a.number-1]
	if t.Code = code; e != nil {
		t.Code, t.Cause = cmp.Or(code, string(e.Kind)), telemetry.CauseText(e.Cause)
	}
	if t.Code != "" {
		t.Took = took // else the attempt ends with the request
	}
	if code != telemetry.Cancelled { // it may still be running on its own goroutine
		if t.First = a.firstEvent; a.response != nil {
			t.Status = a.response.Status()
		}
		t.Plugin.Fuel = a.translation.Fuel
	}
	x.server.account.Recent.Attempt(&x.record)
}

// AllowResend books the request whose connection was lost, as a failed attempt, and reports whether the budgets permit
// to send it again. It implements waiter; in a race, and for a copy, detached does.
func (x *completion) AllowResend() bool {
	a := x.attempt
	used, now := a.held.Lost(), x.server.now()
	a.held.Settle(used, now)
	x.addFailed(true, used, true)
	allowed := x.holds.HoldFailed(now)
	if allowed {
		held, e := x.holds.HoldTarget(x.request, a.target, x.stream, now)
		if allowed = e == nil; allowed {
			a.held = held
		}
	}
	a.accounted = !allowed
	return allowed
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
			a.canary.Record(o, a.services.now())
		}
	}
	outcome, cooldown := failure.Outcome(e)
	if outcome != routing.Inconclusive || e.UpstreamStatus != 0 {
		last := routing.LastError{At: a.services.now(), Code: e.Code, Text: failure.PublicCause(e.Cause)}
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
	t, log, now := a.target, a.services.log, a.services.now()
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
		used.Streamed = x.holds.SettledAt.Sub(x.startedAt) - x.firstEvent
	}
	x.target.RecordUsage(used)
	x.noteTokensPerByte(u.Prompt)
}

// noteTokensPerByte notes how many tokens a provider has counted for each byte of the prompt's text, and reports more
// than the budgets have held. Without a budget, it is not computed.
func (x *completion) noteTokensPerByte(counted int64) {
	ratio, j := x.holds.TokensPerByte(counted), x.server.books.Journal()
	if ratio == 0 || j == nil {
		return
	}
	j.NoteTokensPerByte(x.model.ID, ratio)
	if most := cmp.Or(x.model.TokensPerByte, 1); ratio > most {
		x.server.metrics.ExceedTokensPerByte()
		x.server.ratioLog.Do(func() {
			x.server.log.Warn("the prompt has more tokens than tokens_per_byte of the model allows; raise it", "model", x.model.ID, "tokens_per_byte", most, "seen", ratio)
		})
	}
}

// recordLedger appends the record r to the ledger, if a provider was involved or the journal has a hold for it. It must be
// called before the hold is settled: see journal.Journal.Request. left reports whether the client has left, and begun
// whether it has the head of a stream.
func recordLedger(b *accounting.Books, h *holds.Holds, r *telemetry.Record, labels journal.Labels, left, begun bool) {
	j := b.Journal()
	if j == nil || r.Attempts == 0 && !j.IsOpen(h.ID) {
		return
	}
	j.Request(&journal.Request{
		ID: cmp.Or(h.ID, journal.NewID()), At: h.SettledAt, Labels: labels,
		Tokens: r.Tokens, Cost: r.Cost.Plus(r.UnusedCost()), Estimated: r.UsageEstimated,
		Booked: r.Uncertain, Uncertain: r.UncertainCost,
		Error: r.Status >= 400 && !left || r.Status < 400 && r.Code != "", Incomplete: !r.Complete && (begun || left),
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

// settle accounts what the completion has used, and gives back what it holds of limits and budgets. It is called before
// the last bytes of the response are sent, so that a client that has received them may use all of that again. Only the
// first call that does not panic has an effect. A client that disconnects later has still used as much.
func (x *completion) settle() {
	if !x.holds.SettledAt.IsZero() {
		return
	}
	now, r := x.server.now(), &x.record
	if t := x.target; t != nil {
		r.Provider, r.Target = t.Provider, t.Model // a panic may have ended the attempt
	}
	if failed := x.writer.Failed(); failed != nil && x.committed && !x.disconnected {
		r.Code, r.Cause = failed.Code, failed.Cause
		if failed.Cause == nil && x.provider != nil {
			r.Cause = x.responseCause()
		}
	}
	r.Complete = x.writer.Complete() && !x.disconnected
	if runsOn(x) {
		x.holds.SettledAt = now
		followBackground(x)
		return
	}
	u, used, ok := x.usage()
	if ok {
		r.Tokens, r.UsageEstimated, r.Cost, r.Priced = u.Tokens, u.Estimated, u.Cost, u.Priced
		x.server.logExcessive(r, u.Excessive)
		recordUncertain(&x.record, x.unknown(), used)
	}
	x.holds.SettledAt = now
	defer x.settleHolds(used, now)
	if x.key != nil { // else the client was not authenticated
		labels := journal.Labels{Key: r.Key, Team: r.Team, Model: r.Model, Provider: r.Provider, Tags: x.tagText(), User: r.User}
		recordLedger(x.server.books, &x.holds, r, labels, x.disconnected, x.committed)
	}
}

// settleHolds settles what the completion holds of limits and budgets, at what its last attempt has used. Further calls
// do nothing.
func (x *completion) settleHolds(used spend.Used, now time.Time) {
	defer x.held.Settle(used, now) // even if the rest panics
	r := &x.record
	x.holds.Settle(used, spend.Used{Tokens: r.CancelledTokens, Cost: r.CancelledCost, Uncertain: r.CancelledCost}, now)
}

// finish settles the completion, if that has not been done, logs it, and releases what it holds. Every path ends here,
// and only the first call has an effect.
func (x *completion) finish() {
	if x.finished {
		return
	}
	x.finished = true
	defer x.releaseAll()
	x.conn.FinishRequest()
	x.settle()
	x.endTape(nil)
	x.closeUpstream()
	x.recordResult()
	r := &x.record
	r.Dropped = x.writer.Dropped()
	r.Fuel += x.translation.Fuel + x.chain.Fuel()
	r.Filters = x.chain.Uses()
	if n := x.number; n > 0 && n <= len(r.Tries) && x.translation.Fuel > 0 {
		r.Tries[n-1].Plugin.Fuel = x.translation.Fuel
	}
	r.Tags = strings.Join(x.tags, ",")
	if x.disconnected {
		r.Status, r.Code, r.Complete = 499, "client_closed_request", false
	}
	r.FirstEvent, r.UpstreamID, r.ResponseID = x.firstEvent, x.upstreamID, x.writer.ClientID()
	if x.mirror != nil {
		x.mirror.finish(x)
	}
	r.Ended = x.server.now()
	x.server.account.Request(r)
	x.api.putWorkspace(x.workspace)
	x.reader = nil
	x.workspace = nil
}

// recordResult records the outcome of the last attempt in its target's statistics.
func (x *completion) recordResult() {
	switch failed := x.writer.Failed(); {
	case x.target == nil:
	case x.disconnected:
		x.recordOutcome(routing.Inconclusive, 0)
	case failed != nil:
		x.recordError(failed)
	case x.writer.Complete():
		x.recordOutcome(routing.Succeeded, 0)
		x.recordUsage()
	default:
		// Only a panic ends a response in another way.
		x.recordOutcome(routing.Inconclusive, 0)
	}
}

// releaseAll releases what other requests may be waiting for, each part even if accounting the completion, or releasing
// another part, has panicked.
func (x *completion) releaseAll() {
	if x.generation != nil {
		defer x.generation.release()
	}
	defer x.recordOutcome(routing.Inconclusive, 0) // no effect if it has been recorded
	defer x.closeUpstream()
	defer x.holds.Reservation.Release()
	defer func() {
		if x.chunks.Started() {
			x.server.metrics.EndStream()
		}
	}()
	defer x.server.account.Abandon(&x.record)
	x.watcher.Stop()                // if a wait has panicked
	if x.holds.SettledAt.IsZero() { // settle has panicked
		var used spend.Used
		if x.sent && (!x.rejected || x.followed) && !x.accounted {
			used = x.held.Lost()
		}
		x.settleHolds(used, x.holds.AdmittedAt)
	}
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

package proxy

import (
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
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/exchange"
	"github.com/sluice-gateway/sluice/proxy/internal/failure"
	"github.com/sluice-gateway/sluice/proxy/internal/holds"
	"github.com/sluice-gateway/sluice/proxy/internal/httpfield"
	"github.com/sluice-gateway/sluice/proxy/internal/journal"
	"github.com/sluice-gateway/sluice/proxy/internal/recording"
	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
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
		m.RejectKey(x.Key.Series(), reason)
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
func (x *completion) countFailed(a *exchange.Attempt, hedge bool) {
	_, used, ok := a.Usage()
	now := x.server.Now()
	a.Accounted = true
	a.Held.Settle(used, now)
	if hedge {
		x.holds.SettleHedge(used, now)
	}
	if ok {
		x.addFailed(a.Unknown(), used, !hedge)
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
	x.generation.setRateLimitHeaders(&ctx.Response.Header, x.Key, x.holds.User(), x.server.Now())
	x.record.Status = fasthttp.StatusOK
	h := &ctx.Response.Header
	if !x.Stream {
		x.recordOrigin()
		h.SetContentType("application/json")
		if u := x.Writer.Usage(); u.Priced && !runsOn(x) {
			h.Set("x-gateway-cost", u.Cost.String())
		}
		ctx.Response.SwapBody(x.Writer.AppendResponse(ctx.Response.SwapBody(nil)[:0]))
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
	x.Chunks.Start(x.Conn, &s.Buffers, h.Header(), last)
	s.metrics.StartStream()
}

// respondCount responds with the number of tokens of the request, which is estimated without a provider.
func (x *completion) respondCount(ctx *fasthttp.RequestCtx) {
	x.setRouteHeaders(&ctx.Response.Header)
	x.generation.setRateLimitHeaders(&ctx.Response.Header, x.Key, x.holds.User(), x.server.Now())
	ctx.Response.Header.Set("x-gateway-warning", "estimated input_tokens")
	ctx.SetContentType("application/json")
	ctx.Response.SetBodyRaw(x.API.AppendCount(nil, x.Request.(clientapi.CountRequest).EstimateTokens()))
	x.record.Status, x.record.Bytes = fasthttp.StatusOK, int64(len(ctx.Response.Body()))
}

// completeEmpty responds with an empty response, without calling a model.
func (x *completion) completeEmpty() *apierror.Error {
	x.WrittenAt, x.Provider, x.Accounted = x.server.Now(), new(exchange.Provider), true
	x.Writer.Reset(response.Options{
		Stream: true, ID: x.API.NewResponseID(), RequestID: x.record.RequestID, Model: x.Model.ID, Created: x.record.Began.Unix(), Choices: 1,
	})
	x.Renderer.Respond(x.Request)
	x.Batch.Reset()
	x.Batch.Usage(abi.UsagePrompt, 0)
	x.Batch.Usage(abi.UsageCompletion, 0)
	x.Batch.Finish(0, abi.FinishStop, nil)
	x.Batch.Done(abi.DoneNow)
	if err := x.Writer.Apply(&x.Batch); err != nil {
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
	if x.Explain && x.routed != nil {
		h.SetBytesV("x-gateway-route", appendRoute(nil, x.Random, &x.routed.decision))
	}
	if x.record.Attempts == 0 {
		return
	}
	set("x-gateway-provider", x.record.Provider)
	set("x-gateway-attempts", strconv.Itoa(x.record.Attempts))
	set("x-upstream-request-id", x.UpstreamID)
	if w := x.warnings(); len(w) > 0 {
		x.record.Warnings = strings.Join(w, ", ")
		set("x-gateway-warning", x.record.Warnings)
	}
}

// warnings lists what the gateway and the plugin have changed in the request.
func (x *completion) warnings() (w []string) {
	for _, warning := range x.Request.Describe().Warnings {
		w = append(w, warningWords[warning.Kind]+" "+warning.Member)
	}
	if x.Translated {
		for _, warning := range x.ChatForm.Warnings {
			w = append(w, warningWords[warning.Kind]+" "+warning.Member)
		}
	}
	for _, warning := range x.Translation.Warnings {
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

// recordText records a text that a filter has received.
func (x *completion) recordText(f *config.Filter, what abi.What, text []byte) {
	x.server.Recorder.AddInput(recording.Input{Settings: f.Options, What: what, Text: text, Tags: f.Tags}, x.generation.NewFileRedactor(x.Presented))
}

// recordRouting records the document that describes the request to a router.
func (x *completion) recordRouting(r *routing.Router, document []byte) {
	x.server.Recorder.AddInput(recording.Input{Settings: r.Settings, Document: document}, x.generation.NewFileRedactor(x.Presented))
}

// endAttempt records the outcome of an attempt in the routing decision and in the request's record: the code and status
// of its error e, or "" and 200. took is the time to the error or to the first event.
func (x *completion) endAttempt(a *exchange.Attempt, code string, status int, took time.Duration, e *apierror.Error) {
	x.routed.decision.EndAttempt(a.Entry, code, status, took)
	if len(x.record.Tries) < a.Number {
		return
	}
	t := &x.record.Tries[a.Number-1]
	if t.Code = code; e != nil {
		t.Code, t.Cause = cmp.Or(code, string(e.Kind)), telemetry.CauseText(e.Cause)
	}
	if t.Code != "" {
		t.Took = took // else the attempt ends with the request
	}
	if code != telemetry.Cancelled { // it may still be running on its own goroutine
		if t.First = a.FirstEvent; a.Response != nil {
			t.Status = a.Response.Status()
		}
		t.Plugin.Fuel = a.Translation.Fuel
	}
	x.server.account.Recent.Attempt(&x.record)
}

// AllowResend books the request whose connection was lost, as a failed attempt, and reports whether the budgets permit
// to send it again. It implements exchange.Waiter; in a race, and for a copy, detached does.
func (x *completion) AllowResend() bool {
	a := x.Attempt
	used, now := a.Held.Lost(), x.server.Now()
	a.Held.Settle(used, now)
	x.addFailed(true, used, true)
	allowed := x.holds.HoldFailed(now)
	if allowed {
		held, e := x.holds.HoldTarget(x.Request, a.Target, x.Stream, now)
		if allowed = e == nil; allowed {
			a.Held = held
		}
	}
	a.Accounted = !allowed
	return allowed
}

// recordTarget records the attempt's target for the log and, if a connection to its provider was requested, for the
// retry budget.
func (x *completion) recordTarget(a *exchange.Attempt) {
	x.record.Provider, x.record.Target = a.Target.Provider, a.Target.Model
	if a.Dispatched {
		x.TriedBudgets = append(x.TriedBudgets, a.Target.Budget)
	}
}

// logFailedAttempt logs why an attempt failed, because the access log shows only the last one. The error's message is
// left out: it may be the provider's, and repeat the prompt.
func (x *completion) logFailedAttempt(a *exchange.Attempt, e *apierror.Error) {
	if a.Logged {
		return
	}
	a.Logged = true
	t := a.Target
	attrs := []slog.Attr{
		slog.String("request", x.record.RequestID), slog.String("model", x.record.Model), slog.String("provider", t.Provider),
		slog.String("target", t.Model), slog.Int("attempt", a.Number), slog.Int("status", e.Status), slog.String("code", e.Code),
	}
	if e.Cause != nil {
		attrs = append(attrs, slog.String("cause", e.Cause.Error()))
	}
	x.server.Log.LogAttrs(context.Background(), slog.LevelWarn, "attempt failed", attrs...)
}

// recordUsage records the usage of a complete response in the target's statistics, if the provider has counted it.
func (x *completion) recordUsage() {
	u := x.Writer.Usage()
	if u.Estimated || !u.Known {
		return
	}
	used := routing.Usage{Prompt: u.Prompt, Cached: u.Cached, Completion: u.Completion, CountsCached: u.Has(abi.UsageCached, abi.UsageCachedBeside)}
	if x.Framed {
		used.Streamed = x.holds.SettledAt.Sub(x.StartedAt) - x.FirstEvent
	}
	x.Target.RecordUsage(used)
	x.noteTokensPerByte(u.Prompt)
}

// noteTokensPerByte notes how many tokens a provider has counted for each byte of the prompt's text, and reports more
// than the budgets have held. Without a budget, it is not computed.
func (x *completion) noteTokensPerByte(counted int64) {
	ratio, j := x.holds.TokensPerByte(counted), x.server.books.Journal()
	if ratio == 0 || j == nil {
		return
	}
	j.NoteTokensPerByte(x.Model.ID, ratio)
	if most := cmp.Or(x.Model.TokensPerByte, 1); ratio > most {
		x.server.metrics.ExceedTokensPerByte()
		x.server.ratioLog.Do(func() {
			x.server.Log.Warn("the prompt has more tokens than tokens_per_byte of the model allows; raise it", "model", x.Model.ID, "tokens_per_byte", most, "seen", ratio)
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
	tags := x.Key.TagText()
	if len(x.Tags) > 0 {
		tags = strings.TrimSpace(tags + " " + strings.Join(x.Tags, " "))
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
	now, r := x.server.Now(), &x.record
	if t := x.Target; t != nil {
		r.Provider, r.Target = t.Provider, t.Model // a panic may have ended the attempt
	}
	if failed := x.Writer.Failed(); failed != nil && x.Committed && !x.Disconnected {
		r.Code, r.Cause = failed.Code, failed.Cause
		if failed.Cause == nil && x.Provider != nil {
			r.Cause = x.ResponseCause()
		}
	}
	r.Complete = x.Writer.Complete() && !x.Disconnected
	if runsOn(x) {
		x.holds.SettledAt = now
		followBackground(x)
		return
	}
	u, used, ok := x.Usage()
	if ok {
		r.Tokens, r.UsageEstimated, r.Cost, r.Priced = u.Tokens, u.Estimated, u.Cost, u.Priced
		x.server.logExcessive(r, u.Excessive)
		recordUncertain(&x.record, x.Unknown(), used)
	}
	x.holds.SettledAt = now
	defer x.settleHolds(used, now)
	if x.Key != nil { // else the client was not authenticated
		labels := journal.Labels{Key: r.Key, Team: r.Team, Model: r.Model, Provider: r.Provider, Tags: x.tagText(), User: r.User}
		recordLedger(x.server.books, &x.holds, r, labels, x.Disconnected, x.Committed)
	}
}

// settleHolds settles what the completion holds of limits and budgets, at what its last attempt has used. Further calls
// do nothing.
func (x *completion) settleHolds(used spend.Used, now time.Time) {
	defer x.Held.Settle(used, now) // even if the rest panics
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
	x.Conn.FinishRequest()
	x.settle()
	x.EndTape(nil)
	x.CloseUpstream()
	x.recordResult()
	r := &x.record
	r.Dropped = x.Writer.Dropped()
	r.Fuel += x.Translation.Fuel + x.Chain.Fuel()
	r.Filters = x.Chain.Uses()
	if n := x.Number; n > 0 && n <= len(r.Tries) && x.Translation.Fuel > 0 {
		r.Tries[n-1].Plugin.Fuel = x.Translation.Fuel
	}
	r.Tags = strings.Join(x.Tags, ",")
	if x.Disconnected {
		r.Status, r.Code, r.Complete = 499, "client_closed_request", false
	}
	r.FirstEvent, r.UpstreamID, r.ResponseID = x.FirstEvent, x.UpstreamID, x.Writer.ClientID()
	if x.mirror != nil {
		x.mirror.finish(x)
	}
	endContent(x)
	r.Ended = x.server.Now()
	x.server.account.Request(r)
	x.API.PutWorkspace(x.Workspace)
	x.Reader = nil
	x.Workspace = nil
}

// recordResult records the outcome of the last attempt in its target's statistics.
func (x *completion) recordResult() {
	switch failed := x.Writer.Failed(); {
	case x.Target == nil:
	case x.Disconnected:
		x.RecordOutcome(routing.Inconclusive, 0)
	case failed != nil:
		x.RecordError(failed)
	case x.Writer.Complete():
		x.RecordOutcome(routing.Succeeded, 0)
		x.recordUsage()
	default:
		// Only a panic ends a response in another way.
		x.RecordOutcome(routing.Inconclusive, 0)
	}
}

// releaseAll releases what other requests may be waiting for, each part even if accounting the completion, or releasing
// another part, has panicked.
func (x *completion) releaseAll() {
	if x.generation != nil {
		defer x.generation.Release()
	}
	defer x.RecordOutcome(routing.Inconclusive, 0) // no effect if it has been recorded
	defer x.CloseUpstream()
	defer x.holds.Reservation.Release()
	defer func() {
		if x.Chunks.Started() {
			x.server.metrics.EndStream()
		}
	}()
	defer x.server.account.Abandon(&x.record)
	x.Watcher.Stop()                // if a wait has panicked
	if x.holds.SettledAt.IsZero() { // settle has panicked
		var used spend.Used
		if x.Sent && (!x.Rejected || x.Followed) && !x.Accounted {
			used = x.Held.Lost()
		}
		x.settleHolds(used, x.holds.AdmittedAt)
	}
}

// Delivered finishes a completion after its response has been written completely or a write has failed. It implements
// downstream.Request.
func (x *completion) Delivered(failed bool) {
	x.Disconnected = failed
	x.finishAsync()
}

// finishAsync calls finish outside of the handler, and recovers a panic, which nothing else would.
func (x *completion) finishAsync() {
	defer rescue.Recover(func(p *rescue.Error) { x.server.logPanic(x.record.RequestID, p) })
	x.finish()
}

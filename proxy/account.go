package proxy

import (
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/openai/native"
	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// respond writes the answer or e, and tells whether the answer is under way: somebody else finishes it then.
func (x *completion) respond(ctx *fasthttp.RequestCtx, e *apierror.Error) (under bool) {
	s := x.server
	x.describeRoute(&ctx.Response.Header)
	x.describeLimits(&ctx.Response.Header)
	if e != nil {
		if x.departed || x.abandoned(ctx) {
			// Nobody reads the answer, or the rest of the request.
			closing := *e
			closing.CloseClient, e = true, &closing
		}
		s.refuse(ctx, &x.record, e)
		x.record.Bytes = int64(len(ctx.Response.Body()))
		return false
	}
	x.record.Status = fasthttp.StatusOK
	h := &ctx.Response.Header
	if !x.stream {
		h.SetContentType("application/json")
		ctx.Response.SwapBody(x.writer.AppendResponse(ctx.Response.SwapBody(nil)[:0]))
		x.record.Bytes = int64(len(ctx.Response.Body()))
		return true
	}
	h.SetContentType("text/event-stream; charset=utf-8")
	h.Set("cache-control", "no-cache")
	h.Set("x-accel-buffering", "no")
	x.pump.prepare(x, ctx)
	s.metrics.StartStream()
	return true
}

// maxWarnings is how long x-gateway-warning may be about: some clients take no more than 8 KiB of headers.
const maxWarnings = 1 << 10

// describeRoute says in the response's head what was chosen and what became of the request on its way.
func (x *completion) describeRoute(h *fasthttp.ResponseHeader) {
	set := func(name, value string) {
		if value != "" && printable([]byte(strings.ReplaceAll(value, " ", ""))) {
			h.Set(name, value)
		}
	}
	set("x-gateway-model", x.record.Model)
	if x.record.Attempts == 0 {
		return
	}
	set("x-gateway-provider", x.record.Provider)
	set("x-gateway-attempts", strconv.Itoa(x.record.Attempts))
	set("x-upstream-request-id", x.record.UpstreamID)
	if len(x.attempt.Warnings) == 0 {
		return
	}
	var w []string
	size := 0
	for i, warning := range x.attempt.Warnings {
		words := warningWords[warning.Kind] + " " + warning.Member
		if size += len(words) + len(", "); size > maxWarnings {
			w = append(w, strconv.Itoa(len(x.attempt.Warnings)-i)+" more")
			break
		}
		w = append(w, words)
	}
	set("x-gateway-warning", strings.Join(w, ", "))
}

var warningWords = [abi.WarnKinds]string{abi.WarnDropped: "dropped", abi.WarnClamped: "clamped", abi.WarnChanged: "changed"}

// describeLimits says in the answer's head what the key has left of its limits.
func (x *completion) describeLimits(h *fasthttp.ResponseHeader) {
	if x.key == nil || !x.key.Limited() {
		return
	}
	s, _ := x.key.Remaining(x.server.now())
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	if l := s.Limits.RequestsPerMinute; l > 0 {
		h.Set("x-ratelimit-limit-requests", number(l))
		h.Set("x-ratelimit-remaining-requests", number(s.Requests))
		h.Set("x-ratelimit-reset-requests", span(s.RequestsReset))
	}
	if l := s.Limits.TokensPerMinute; l > 0 {
		h.Set("x-ratelimit-limit-tokens", number(l))
		h.Set("x-ratelimit-remaining-tokens", number(s.Tokens))
		h.Set("x-ratelimit-reset-tokens", span(s.TokensReset))
	}
}

// span is a duration as the convention writes it: 6m0s, 1.5s, 20ms, and 0s for none.
func span(d time.Duration) string { return d.Round(time.Millisecond).String() }

// finish accounts the exchange, once, on every way out, and gives back what it holds.
func (x *completion) finish() {
	if x.finished {
		return
	}
	x.finished = true
	x.conn.FinishRequest()
	defer x.giveBack()
	x.ended = x.server.now()
	failed := x.writer.Failed()
	if failed != nil && x.committed && !x.departed {
		x.record.Code, x.record.Cause = failed.Code, failed.Cause
		if failed.Cause == nil && x.provider != nil {
			x.record.Cause = x.said()
		}
	}
	x.hangUp()
	switch {
	case x.target == nil:
	case x.departed:
		x.settle(routing.Inconclusive, 0)
	case failed != nil:
		x.settle(outcome(failed))
	case x.writer.Complete():
		x.settle(routing.Succeeded, 0)
	default:
		// Only a panic ends an answer in any other way.
		x.settle(routing.Inconclusive, 0)
	}
	r := &x.record
	r.Complete = x.writer.Complete() && !x.departed
	if x.writer.Started() || x.writer.Complete() || x.departed && x.sent {
		// What a client left behind it has cost the prompt and what there was of the answer, whole or streamed.
		u := x.writer.Usage()
		r.PromptTokens, r.CompletionTokens = u.Prompt, u.Completion
		r.CachedTokens, r.ReasoningTokens = u.Cached, u.Reasoning
		r.UsageEstimated = u.Estimated
	}
	r.Dropped = x.writer.Dropped()
	r.Fuel += x.attempt.Fuel
	if x.departed {
		r.Status, r.Code = 499, "client_closed_request"
	}
	x.admission.Release(x.spent(), x.ended)
	r.Ended = x.ended
	x.server.account.Request(r)
	x.writer.Reset(response.Options{})
	x.server.writers.Put(x.writer)
	x.writer = nil
	x.attempt.Reset()
	x.batch.Reset()
	x.reader.Reset(native.Options{})
	x.decoders.Reset()
	x.decoder = nil
	x.from = nil
	x.server.works.Put(x.work)
	x.work = nil
}

// spent is how many tokens the request has used, as far as anybody knows. What a provider was sent counts for its prompt at
// least, also where the client did not wait for the answer.
func (x *completion) spent() int64 {
	if x.writer.Started() || x.writer.Complete() || x.departed && x.sent {
		return x.writer.Usage().Total
	}
	return 0
}

// giveBack gives back what others wait for, also where accounting the exchange has failed.
func (x *completion) giveBack() {
	x.server.metrics.AbandonRequest(&x.record)
	if x.pump.x != nil {
		x.server.metrics.EndStream()
	}
	x.leave()
	if x.gen != nil {
		defer x.gen.release()
	}
	x.hangUp()
	x.settle(routing.Inconclusive, 0) // where it is not
}

// Delivered finishes a completion whose response has been written whole, or cannot be. It implements downstream.Request.
func (x *completion) Delivered(failed bool) {
	x.departed = failed
	x.conclude()
}

// conclude finishes a completion outside of its handler, where no one else would recover a panic.
func (x *completion) conclude() {
	defer rescue.Recover(func(p *rescue.Error) { x.server.logPanic(x.record.RequestID, p) })
	x.finish()
}

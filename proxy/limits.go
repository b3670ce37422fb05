package proxy

import (
	"github.com/sluice-gateway/sluice/proxy/internal/openai"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"

	"cmp"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"
)

// What an answer is taken for, in tokens, until it is there: what its request says, up to a maximum, as most of those that
// allow for a long answer get a short one.
const (
	assumedAnswer = 1024
	maxAssumed    = 4096
)

// admit lets the request in under its key's limits. What it uses of them settles finish.
func (x *completion) admit() (e *apierror.Error) {
	r := x.request
	answer := min(cmp.Or(r.MaxTokens, x.model.DefaultMaxTokens, assumedAnswer), maxAssumed)
	x.admitted = x.server.now()
	x.admission, e = x.key.Admit(promptEstimate(r), int64(r.N)*answer, x.admitted)
	return e
}

// spent is how many tokens the request has used, as far as anybody knows. What a provider was sent counts for its prompt at
// least, also where the client did not wait for the answer.
func (x *completion) spent() int64 {
	if x.writer.Started() || x.writer.Complete() || x.departed && x.sent {
		return x.writer.Usage().Total
	}
	return 0
}

// promptEstimate is how many tokens a request's prompt is taken for.
func promptEstimate(r *openai.Request) int64 { return int64(r.TextBytes+3) / 4 }

// describeLimits says in the answer's head what the key has left of its limits.
func (x *completion) describeLimits(h *fasthttp.ResponseHeader) {
	if x.key == nil || !x.key.Limited() {
		return
	}
	s, _ := x.key.Standing(x.server.now())
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

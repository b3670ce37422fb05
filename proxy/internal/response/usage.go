package response

import (
	"github.com/sluice-gateway/sluice/proxy/internal/cost"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Usage is the token usage of one response, for the client (Writer.Usage) or for accounting (Writer.Accounted).
type Usage struct {
	cost.Tokens
	Total int64 // always Prompt + Completion

	Cost   cost.Nano // cost of the tokens, valid if Priced
	Priced bool      // prices are known

	Known     bool // the provider gave at least one of Prompt and Completion
	Estimated bool // at least one of Prompt and Completion is the gateway's estimate
	Complete  bool // the response is complete, so the counts are final

	// Excessive says that the provider gave a count that no request can have, which is replaced by the most that this
	// one could use.
	Excessive bool

	given kindSet
}

// Has reports whether the provider gave a count of one of the kinds.
func (u *Usage) Has(kinds ...abi.UsageKind) bool { return u.given.has(kinds...) }

// maxTokens bounds a token count, so that sums cannot overflow.
const maxTokens = 1 << 50

const (
	// plausibleTokens is more than the context of any model holds. No request has a higher count, unless it is larger
	// itself. A prompt may have more tokens than the gateway can see, for example results of the provider's own tools.
	plausibleTokens = 1 << 24

	// reasoningTokens is more than a choice has in addition to its limit, if that does not include its reasoning.
	reasoningTokens = 1 << 18
)

// tally holds the provider's counts, by abi.UsageKind.
type tally struct {
	count                              [abi.UsageKinds]int64
	known                              kindSet
	excessivePrompt, excessiveResponse bool // a count was ignored because no request can have it
}

// count records a count of the provider.
func (w *Writer) count(kind abi.UsageKind, value int64) {
	plausible, excessive := max(plausibleTokens, w.o.PromptMost), &w.usage.excessivePrompt
	switch kind {
	case abi.UsageCompletion, abi.UsageReasoning, abi.UsageReasoningBeside, abi.UsageAudioOut, abi.UsageBilledCompletion:
		plausible, excessive = plausibleTokens, &w.usage.excessiveResponse
		if most := w.o.ResponseMost; most > 0 {
			plausible = most + reasoningTokens*int64(max(w.o.Choices, 1))
		}
	}
	if value > plausible {
		*excessive = true
		return
	}
	w.usage.set(kind, value)
}

// set records a count. The last one of a kind wins. Values out of range are ignored.
func (t *tally) set(kind abi.UsageKind, value int64) {
	if value < 0 || value > maxTokens {
		return
	}
	t.count[kind] = value
	t.known |= 1 << kind
}

// kindSet is a set of abi.UsageKind.
type kindSet uint16

func (s kindSet) has(kinds ...abi.UsageKind) bool {
	for _, k := range kinds {
		if s&(1<<k) != 0 {
			return true
		}
	}
	return false
}

// bytesPerToken is used to estimate tokens that the provider does not count.
const bytesPerToken = 4

// Usage returns the token usage so far, as reported to the client.
func (w *Writer) Usage() Usage {
	u := w.tokens()
	w.price(&u)
	return u
}

// Accounted returns the token usage that the request is charged for. In an incomplete response the provider's count may
// be older than most of the texts, so Completion is at least the estimate from the texts.
func (w *Writer) Accounted() Usage {
	u := w.tokens()
	if seen := w.estimateCompletion(); !w.complete && !w.revoked && seen > u.Completion {
		u.Completion, u.Total, u.Estimated = seen, u.Prompt+seen, true
	}
	w.price(&u)
	return u
}

// Used reports whether the provider has counted tokens or sent text. Only then is a response charged for if the client
// did not receive it.
func (w *Writer) Used() bool { return w.usage.known != 0 || w.textBytes > 0 }

// Conclusive reports whether the provider has said how the response ended: it is complete, the provider has reported an
// error, or it has finished the response and counted its tokens before the body broke off.
func (w *Writer) Conclusive() bool {
	return w.complete || w.ended || w.doneAtEnd && w.usage.known.has(abi.UsageCompletion, abi.UsageReasoningBeside)
}

func (w *Writer) price(u *Usage) {
	if p := w.o.Prices; p != nil {
		u.Cost, u.Priced = p.ServiceTier(w.tier).Cost(w.billed(u.Tokens)), true
	}
}

// billed returns t with the prompt or completion replaced by the billed counts, if the provider gives them.
func (w *Writer) billed(t cost.Tokens) cost.Tokens {
	n := &w.usage
	if n.known.has(abi.UsageBilledPrompt) && !n.excessivePrompt {
		t.Prompt, t.Cached, t.CacheWrite, t.CacheWrite1h, t.AudioIn = n.count[abi.UsageBilledPrompt], 0, 0, 0, 0
	}
	if n.known.has(abi.UsageBilledCompletion) && !n.excessiveResponse {
		t.Completion, t.Reasoning, t.AudioOut = n.count[abi.UsageBilledCompletion], 0, 0
	}
	return t
}

func (w *Writer) estimateCompletion() int64 { return (w.textBytes + bytesPerToken - 1) / bytesPerToken }

func (w *Writer) tokens() Usage {
	t := &w.usage
	u := Usage{Tokens: cost.Tokens{
		Prompt: t.count[abi.UsagePrompt] + t.count[abi.UsagePromptBeside] +
			t.count[abi.UsageCachedBeside] + t.count[abi.UsageCacheWriteBeside],
		Completion: t.count[abi.UsageCompletion] + t.count[abi.UsageReasoningBeside],
		Cached:     t.count[abi.UsageCached] + t.count[abi.UsageCachedBeside],
		CacheWrite: t.count[abi.UsageCacheWrite] + t.count[abi.UsageCacheWriteBeside],
		AudioIn:    t.count[abi.UsageAudioIn],
		Reasoning:  t.count[abi.UsageReasoning] + t.count[abi.UsageReasoningBeside],
		AudioOut:   t.count[abi.UsageAudioOut],

		CacheWrite1h: t.count[abi.UsageCacheWrite1h],
	}, Complete: w.complete, given: t.known}
	prompt := t.known.has(abi.UsagePrompt, abi.UsagePromptBeside, abi.UsageCachedBeside, abi.UsageCacheWriteBeside)
	completion := t.known.has(abi.UsageCompletion, abi.UsageReasoningBeside)
	u.Known = prompt || completion
	u.Estimated = !prompt || !completion
	if !prompt {
		u.Prompt = w.o.PromptEstimate
	}
	if !completion {
		u.Completion = w.estimateCompletion()
	}
	if u.Excessive = t.excessivePrompt || t.excessiveResponse; u.Excessive {
		w.replaceExcessive(&u)
	}
	u.Total = u.Prompt + u.Completion
	return u
}

// replaceExcessive replaces counts of which the provider gave an impossible one by the most that the request could use,
// or by what has arrived if the response had no limit.
func (w *Writer) replaceExcessive(u *Usage) {
	u.Estimated = true
	if w.usage.excessivePrompt {
		u.Prompt = max(w.o.PromptMost, w.o.PromptEstimate)
		u.Cached, u.CacheWrite, u.CacheWrite1h, u.AudioIn = 0, 0, 0, 0
	}
	if w.usage.excessiveResponse {
		u.Completion = max(w.o.ResponseMost, w.estimateCompletion())
		u.Reasoning, u.AudioOut = 0, 0
	}
}

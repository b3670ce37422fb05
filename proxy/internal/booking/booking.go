// Package booking computes what a request costs whose outcome is unknown. Providers may bill a request that they have
// received, even if no response arrived, or only the beginning of one. So it is booked at what it held until something
// tells better: the prompt and, unless it is streamed, the completion. Of a streamed completion, only what has arrived
// is booked, and a little more, because the provider stops soon after the connection is closed.
//
// The package neither decides which outcomes are unknown nor counts money: see package spend.
//
// Concurrency: stateless functions.
package booking

import (
	"github.com/sluice-gateway/sluice/proxy/internal/cost"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// streamTail is how many tokens of a stream are booked in addition to those that have arrived.
const streamTail = 256

// Held is what an attempt at a target holds.
type Held struct {
	// Need has the estimated tokens and, if the attempt is under a strict budget, Fixed and PerMillion. Its MaxTokens is
	// 0 if the response has no known maximum.
	spend.Need

	Prices  *cost.Prices // nil if unknown
	Choices int64        // number of choices of the response; 0 if it has no text
	Stream  bool
}

// Unknown returns what is booked for an attempt that was sent, and whose outcome is unknown. arrived is the usage of the
// part of the response that has arrived, and counted whether that includes anything that is certain to cost something.
// Limits of tokens count what has arrived: they bound a rate, not what may be billed.
func (h *Held) Unknown(arrived *response.Usage, counted bool) spend.Used {
	completion := h.completion(arrived.Completion)
	used := spend.Used{Tokens: arrived.Prompt + arrived.Completion}
	switch {
	case h.Prices == nil:
		return used
	case arrived.Has(abi.UsagePrompt, abi.UsagePromptBeside, abi.UsageCachedBeside, abi.UsageCacheWriteBeside):
		// The provider has counted the prompt, so that only the rest of the completion is unknown.
		price := func(completion int64) cost.Nano {
			return h.Prices.Cost(cost.Tokens{Prompt: arrived.Prompt, Completion: completion})
		}
		used.Cost = arrived.Cost.Plus(price(completion) - price(min(arrived.Completion, completion)))
	case h.Fixed > 0:
		used.Cost = max(arrived.Cost, h.CeilingOf((completion+max(h.Choices, 1)-1)/max(h.Choices, 1)))
	default:
		used.Cost = max(arrived.Cost, h.Prices.Cost(cost.Tokens{Prompt: arrived.Prompt, Completion: completion}))
	}
	used.Uncertain = used.Cost
	if counted {
		used.Uncertain -= arrived.Cost
	}
	return used
}

// Lost returns what is booked for an attempt that was sent, and of whose response nothing is known.
func (h *Held) Lost() spend.Used {
	return h.Unknown(&response.Usage{Tokens: cost.Tokens{Prompt: h.Prompt}}, false)
}

// completion returns the tokens of a completion that are booked if this many have arrived.
func (h *Held) completion(arrived int64) int64 {
	most := h.MaxTokens * h.Choices
	switch {
	case h.Choices == 0:
		return arrived
	case h.Stream && most > 0:
		return max(arrived, min(arrived+streamTail, most))
	case h.Stream:
		return arrived + streamTail
	case h.Fixed > 0:
		return max(arrived, most)
	}
	return max(arrived, h.Completion)
}

// Cancelled returns what is booked for an attempt that was sent, and that the gateway has cancelled before the
// response's head arrived: the prompt, as estimated.
func (h *Held) Cancelled() spend.Used {
	used := spend.Used{Tokens: h.Prompt}
	if h.Prices != nil {
		used.Cost = h.Prices.Cost(cost.Tokens{Prompt: h.Prompt})
		used.Uncertain = used.Cost
	}
	return used
}

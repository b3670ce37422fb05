package booking_test

import (
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/booking"
	"github.com/sluice-gateway/sluice/proxy/internal/cost"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
)

// The prices of a prompt token and a completion token, in nano-dollars.
const input, output = 1_000, 10_000

func prices() *cost.Prices {
	r := cost.NoRates()
	r[cost.Input], r[cost.Output] = 1e12, 10e12
	return cost.New(r)
}

// TestUnknown has an attempt that ends after the provider has sent this many completion tokens, and no counts. Its prompt
// probably has 10 tokens, and 40 at most.
func TestUnknown(t *testing.T) {
	const prompt, promptMost = 10 * input, 40 * input
	strict := spend.Need{Prompt: 10, Completion: 200, Fixed: promptMost, PerMillion: output * 1e6, MaxTokens: 1000}
	estimated := spend.Need{Prompt: 10, Completion: 200, MaxTokens: 1000}
	unlimited := spend.Need{Prompt: 10, Completion: 1024}
	two := strict
	two.PerMillion *= 2
	for name, c := range map[string]struct {
		held    booking.Held
		arrived int64
		want    cost.Nano
	}{
		"non-streaming":                         {booking.Held{Need: strict, Choices: 1}, 0, promptMost + 1000*output},
		"part of a document":                    {booking.Held{Need: strict, Choices: 1}, 7, promptMost + 1000*output},
		"two choices":                           {booking.Held{Need: two, Choices: 2}, 0, promptMost + 2*1000*output},
		"stream":                                {booking.Held{Need: strict, Choices: 1, Stream: true}, 0, promptMost + 256*output},
		"part of a stream":                      {booking.Held{Need: strict, Choices: 1, Stream: true}, 7, promptMost + (7+256)*output},
		"stream near its limit":                 {booking.Held{Need: strict, Choices: 1, Stream: true}, 900, promptMost + 1000*output},
		"more than the limit":                   {booking.Held{Need: strict, Choices: 1, Stream: true}, 1100, promptMost + 1100*output},
		"no text":                               {booking.Held{Need: spend.Need{Prompt: 10, Fixed: promptMost}}, 0, promptMost},
		"no strict budget":                      {booking.Held{Need: estimated, Choices: 1}, 0, prompt + 200*output},
		"no strict budget, more than estimated": {booking.Held{Need: estimated, Choices: 1}, 300, prompt + 300*output},
		"no strict budget, stream":              {booking.Held{Need: estimated, Choices: 1, Stream: true}, 7, prompt + (7+256)*output},
		"no limit":                              {booking.Held{Need: unlimited, Choices: 1}, 0, prompt + 1024*output},
		"no limit, stream":                      {booking.Held{Need: unlimited, Choices: 1, Stream: true}, 2000, prompt + (2000+256)*output},
		"no strict budget, no text":             {booking.Held{Need: spend.Need{Prompt: 10}}, 0, prompt},
	} {
		c.held.Prices = prices()
		arrived := response.Usage{Tokens: cost.Tokens{Prompt: 10, Completion: c.arrived}}
		arrived.Cost = c.held.Prices.Cost(arrived.Tokens)
		certain := cost.Nano(0)
		if c.arrived > 0 {
			certain = arrived.Cost
		}
		if got, want := c.held.Unknown(&arrived, c.arrived > 0), (spend.Used{Tokens: 10 + c.arrived, Cost: c.want, Uncertain: c.want - certain}); got != want {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
}

// TestCancelled checks that an attempt which the gateway cancels costs its prompt, and nothing without prices.
func TestCancelled(t *testing.T) {
	held := booking.Held{Need: spend.Need{Prompt: 10, Completion: 200}, Choices: 1}
	if got, want := held.Cancelled(), (spend.Used{Tokens: 10}); got != want || held.Lost() != want {
		t.Errorf("without prices: got %+v and %+v, want %+v", got, held.Lost(), want)
	}
	held.Prices = prices()
	if got, want := held.Cancelled(), (spend.Used{Tokens: 10, Cost: 10 * input, Uncertain: 10 * input}); got != want {
		t.Errorf("cancelled: got %+v, want %+v", got, want)
	}
	const lost = 10*input + 200*output
	if got, want := held.Lost(), (spend.Used{Tokens: 10, Cost: lost, Uncertain: lost}); got != want {
		t.Errorf("lost: got %+v, want %+v", got, want)
	}
}

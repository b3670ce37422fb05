// Package estimate computes what a request is likely to use and the most that it can cost, before a provider has
// counted its tokens: from its prompt (Prompt), the tokens of its response (Rates, MaxTokens), and the service tiers
// that it may be served in (AddTarget).
//
// Package spend holds these amounts against limits and budgets, and package cost computes the actual cost of a
// response. If a budget is strict and the request has no token limit, AppendWithLimit writes its document with one.
//
// Concurrency: stateless functions, which modify only the slice or Need that they add to.
package estimate

import (
	"bytes"
	"cmp"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/cost"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
)

// The tokens that a completion is assumed to have until they are counted: the request's limit, up to a maximum, because
// most requests that allow a long completion get a short one.
const (
	assumedCompletion    = 1024 // for a request without a limit
	maxAssumedCompletion = 4096
)

// PromptTokens returns how many tokens a request's prompt is assumed to have.
func PromptTokens(f *clientapi.Facts) int64 { return int64(f.TextBytes+3) / 4 }

// Rates returns the tokens to reserve for a request from limits per minute. defaultMaxTokens is the model's, which
// limits a response if the client sets no limit; 0 if unset.
func Rates(f *clientapi.Facts, defaultMaxTokens int64) spend.Need {
	tokens := min(cmp.Or(f.MaxTokens, defaultMaxTokens, assumedCompletion), maxAssumedCompletion)
	return spend.Need{Prompt: PromptTokens(f), Completion: int64(f.Generated()) * tokens}
}

// Cost returns what a request probably costs at a target with prices, of whose prompt tokens this share is read from the
// provider's cache. It is what a budget that is not strict holds, but at the prices of the requested service tier.
func Cost(r clientapi.Request, t *routing.Target, cachedShare float64, defaultMaxTokens int64) cost.Nano {
	n, prices := Rates(r.Describe(), defaultMaxTokens), t.Prices
	if prices.HasServiceTiers() {
		prices = prices.ServiceTier([]byte(cmp.Or(t.ServiceTier, requestedTier(r))))
	}
	return prices.Cost(cost.Tokens{Prompt: n.Prompt, Cached: int64(float64(n.Prompt) * cachedShare), Completion: n.Completion})
}

// Most returns the most tokens that a request of n bytes and its response can have, for counts of providers that no
// request can have. maxTokens is the model's limit. The response's number is 0 if it has no limit.
func Most(f *clientapi.Facts, n int, maxTokens int64) (prompt, response int64) {
	p := spend.Prompt{Text: int64(f.TextBytes), Parts: int64(f.Messages + f.Tools), Tools: f.Tools > 0, Images: int64(f.Images), Media: int64(max(n-f.TextBytes, 0))}
	if f.Flags.Has(clientapi.FlagAudio) {
		p.Audio = 1
	}
	if f.Flags.Has(clientapi.FlagFiles) {
		p.Files = 1
	}
	return p.Tokens(), int64(f.Generated()) * cmp.Or(f.MaxTokens, maxTokens)
}

// mediaMarks are strings of which every image, audio or file part contains one, in any client API.
var mediaMarks = [...][]byte{[]byte(`"image`), []byte(`"input_`), []byte(`"file`), []byte(`"document"`), []byte(`"inline`), []byte(`"video`)}

// Prompt describes a request's prompt, to compute the most that it can cost.
func Prompt(r clientapi.Request) spend.Prompt {
	f := r.Describe()
	p := spend.Prompt{Text: int64(f.TextBytes), Parts: int64(f.Messages + f.Tools), Tools: f.Tools > 0, Estimate: PromptTokens(f)}
	if f.Flags&(clientapi.FlagImages|clientapi.FlagAudio|clientapi.FlagFiles) == 0 {
		return p
	}
	_, body := r.Document()
	p.Media = int64(max(len(body)-f.TextBytes, 0))
	parts := int64(1)
	for _, mark := range mediaMarks {
		parts = max(parts, int64(bytes.Count(body, mark)))
	}
	if f.Flags.Has(clientapi.FlagImages) {
		p.Images = int64(max(f.Images, 1))
	}
	if f.Flags.Has(clientapi.FlagAudio) {
		p.Audio = parts
	}
	if f.Flags.Has(clientapi.FlagFiles) {
		p.Files = parts
	}
	return p
}

// AddTarget makes n also cover sending the request to a target, in any of the service tiers that it may be served in
// there. p is the request's prompt, and maxImageTokens the model's maximum tokens per image, 0 if unset.
func AddTarget(n *spend.Need, r clientapi.Request, p *spend.Prompt, t *routing.Target, maxImageTokens int64) {
	if t.Prices == nil {
		return
	}
	prompt, tier := *p, ""
	prompt.PerImage = cmp.Or(maxImageTokens, spend.ImageTokens(t.Model))
	if t.Prices.HasServiceTiers() {
		tier = cmp.Or(t.ServiceTier, requestedTier(r))
	}
	for prices := range t.Prices.Possible(tier) {
		n.AddTarget(prices, &prompt, int64(r.Describe().Generated()))
	}
}

// Package estimate reads from a request what it probably uses and what it can cost at most, before a provider has counted anything:
// its prompt (Prompt), the tokens of its response (Rates, MaxTokens), and the service tiers that it may get (AddTarget).
//
// What budgets do with that is in package spend, and what a response has really cost in package cost. Where a budget is strict, and the
// request has no limit of tokens, AppendWithLimit writes the document with one.
//
// Concurrency: functions only, which change nothing of what they are given but what they append to.
package estimate

import (
	"bytes"
	"cmp"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
)

// The tokens that a completion is assumed to take until they are known: what its request allows, up to a maximum, as most
// requests that allow a long completion get a short one.
const (
	assumedCompletion    = 1024
	maxAssumedCompletion = 4096
)

// PromptTokens is how many tokens a request's prompt is assumed to have.
func PromptTokens(f *clientapi.Facts) int64 { return int64(f.TextBytes+3) / 4 }

// Rates is what a request may need of rates. defaultMaxTokens is the limit of a response for which the client sets none, 0 for none.
func Rates(f *clientapi.Facts, defaultMaxTokens int64) spend.Need {
	tokens := min(cmp.Or(f.MaxTokens, defaultMaxTokens, assumedCompletion), maxAssumedCompletion)
	return spend.Need{Prompt: PromptTokens(f), Completion: int64(f.Generated()) * tokens}
}

// mediaMarks are in each part of a request that is an image, audio or a file, in one of the client APIs.
var mediaMarks = [...][]byte{[]byte(`"image`), []byte(`"input_`), []byte(`"file`), []byte(`"document"`), []byte(`"inline`), []byte(`"video`)}

// Prompt describes what a request sends, for the most that it can cost.
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

// AddTarget makes a need that of a request which may also be sent to a target, in any of the service tiers that it may get there. p is
// the request's prompt, and maxImageTokens the most tokens of an image in it, 0 if the model does not say.
func AddTarget(n *spend.Need, r clientapi.Request, p *spend.Prompt, t *routing.Target, maxImageTokens int64) {
	if t.Prices == nil {
		return
	}
	of, asked := *p, ""
	of.PerImage = cmp.Or(maxImageTokens, spend.ImageTokens(t.Model))
	if t.Prices.HasServiceTiers() {
		asked = cmp.Or(t.ServiceTier, requestedTier(r))
	}
	for prices := range t.Prices.Possible(asked) {
		n.AddTarget(prices, &of, int64(r.Describe().Generated()))
	}
}

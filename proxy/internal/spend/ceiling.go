package spend

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/cost"
)

// Prompt describes what a request sends, to bound its tokens before a provider counts them.
type Prompt struct {
	Text     int64   // bytes of text for the model; a token has at least one byte
	PerByte  float64 // the most tokens of a byte of text; 0 means 1
	Parts    int64   // number of messages and tools
	Tools    bool
	Images   int64
	PerImage int64 // maximum tokens of an image, from ImageTokens; 0 if unknown
	Audio    int64 // number of audio parts
	Files    int64
	Media    int64 // bytes of images, audio and files in the request itself, not of those referred to by URL
	Estimate int64 // probable number of tokens
}

// The most tokens that providers count for anything except text. If a provider counts more, the actual cost is still
// counted, and the excess is logged.
const (
	promptOverhead = 64      // per request, for the provider's prompt template
	partOverhead   = 16      // per message or tool
	toolsOverhead  = 1024    // once, for the provider's instructions about tools
	imageTokens    = 20_000  // a large photo, in models that do not scale it down: GPT-6 counts 14,364 at 12 megapixels, Qwen's at most 16,386
	audioTokens    = 60_000  // audio by URL: half an hour at 32 tokens per second
	fileTokens     = 200_000 // a file by URL or ID: a long document as text and page images
	bytesPerAudio  = 64      // bytes per token of audio at the lowest bit rate
)

// ImageTokens returns the maximum tokens of an image for a provider's name of a model, or 0 if that is unknown.
func ImageTokens(model string) int64 {
	for _, m := range perImage {
		if strings.Contains(model, m.name) {
			return m.most
		}
	}
	return 0
}

// perImage lists models by a part of their names, longer names first.
var perImage = [...]struct {
	name string
	most int64
}{
	{"gpt-4o-mini", 48_169}, // 2,833, plus 5,667 for each of 4 × 2 tiles: 33 times those of gpt-4o, at a price that is lower by the same factor
	{"gpt-4o", 5000},        // 85, plus 170 for each of 8 tiles: 1,445
	{"gpt-4.1", 5000},       // at most 1,536 patches, times 2.46 in the smallest model: 3,779
	{"claude", 5000},        // about 4,800 in high resolution
	{"gemini", 5000},        // 2,240 in ultra high resolution; older ones have 258 for each tile
}

// Tokens returns the most tokens that the prompt can have.
func (p *Prompt) Tokens() int64 {
	n := int64(math.Ceil(float64(p.Text)*cmp.Or(p.PerByte, 1))) + promptOverhead + partOverhead*p.Parts + cmp.Or(p.PerImage, imageTokens)*p.Images
	if p.Tools {
		n += toolsOverhead
	}
	if p.Audio > 0 {
		n += max(audioTokens*p.Audio, p.Media/bytesPerAudio)
	}
	if p.Files > 0 {
		n += max(fileTokens*p.Files, p.Media)
	}
	return n
}

// TokensPerByte returns how many tokens each byte of the text has, if the prompt has this many tokens and everything else
// has the most that is held for it. It is 0 if that is unknown, as with images.
func (p Prompt) TokensPerByte(tokens int64) float64 {
	text := p.Text
	if p.Text = 0; text == 0 || p.Images+p.Audio+p.Files > 0 {
		return 0
	}
	return max(float64(tokens-p.Tokens())/float64(text), 0)
}

// million is the number of tokens that a price is for.
const million = 1_000_000

// AddTarget raises the need so that it covers another target that the request may be sent to, which has these prices.
// n.MaxTokens must be the limit of each choice, and n.Completion the estimated tokens of all choices together.
func (n *Need) AddTarget(prices *cost.Prices, p *Prompt, choices int64) {
	if prices == nil {
		return
	}
	prompt := p.Tokens()
	// Costs are rounded half up, and the ceilings of their parts are rounded up.
	fixed := prices.Ceiling(prompt, 0).Plus(1)
	n.Fixed = max(n.Fixed, fixed)
	n.PerMillion = max(n.PerMillion, prices.Ceiling(prompt, million*choices)-fixed+2)
	n.Estimate = max(n.Estimate, prices.Cost(cost.Tokens{Prompt: p.Estimate, Completion: n.Completion}))
}

// Ceiling returns the most that the request can cost.
func (n *Need) Ceiling() cost.Nano { return n.CeilingOf(n.MaxTokens) }

// CeilingOf returns the most that the request can cost if each choice of its response has this number of tokens.
func (n *Need) CeilingOf(tokens int64) cost.Nano {
	return n.Fixed.Plus(tokenCost(n.PerMillion, tokens))
}

// Budgeted reports whether any of the scopes has a budget. The cost of the request must then be estimated.
func (s *Scopes) Budgeted() bool {
	for _, a := range s {
		if a != nil && len(a.budgets) > 0 {
			return true
		}
	}
	return false
}

// Left returns the share of the tightest budget that is not spent, by all gateways if it is shared, and names it. Without
// a budget, everything is left.
func (s *Scopes) Left(now time.Time) (share float64, of string) {
	share = 1
	for _, a := range s {
		if a == nil || len(a.budgets) == 0 {
			continue
		}
		for _, b := range a.appendStatus(nil, now) {
			if left := max(1-b.Used(), 0); of == "" || left < share {
				share, of = left, fmt.Sprintf("%s per %s", a.who(), b.Per)
			}
		}
	}
	return share, of
}

// PricedOnly reports whether any of the scopes has a budget that admits only models with a price.
func (s *Scopes) PricedOnly() bool { return s.pricedOnly() != nil }

func (s *Scopes) pricedOnly() *Account {
	for _, a := range s {
		if a != nil && slices.ContainsFunc(a.budgets, func(b config.Budget) bool { return !b.UnpricedFree }) {
			return a
		}
	}
	return nil
}

// CheckPriced returns the error for a model without a price if PricedOnly is true.
func (s *Scopes) CheckPriced(model string) *apierror.Error {
	a := s.pricedOnly()
	if a == nil {
		return nil
	}
	e := apierror.Invalid("unpriced_model", "model", "The model %q has no price, so that the budget of the %s cannot bound what it costs.", model, a.who())
	e.Status, e.NoRetry, e.Cause = 403, true, &LimitError{Scope: a.shown(), Limit: LimitBudget, Unpriced: true}
	return e
}

// Strict reports whether any of the scopes has a strict budget. The tokens of the response must then have a limit.
func (s *Scopes) Strict() bool {
	for _, a := range s {
		if a == nil {
			continue
		}
		for i := range a.budgets {
			if a.budgets[i].Strict {
				return true
			}
		}
	}
	return false
}

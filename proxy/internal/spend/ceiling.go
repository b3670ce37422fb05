package spend

import (
	"cmp"
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/cost"
)

// Prompt is what a request sends, as far as its tokens can be bounded before a provider counts them.
type Prompt struct {
	Text     int64 // bytes that a model reads as text, of which a token has one at least
	Parts    int64 // messages and tools
	Tools    bool
	Images   int64
	PerImage int64 // the most tokens of one; 0: the most of any model that is not known to have more
	Audio    int64 // parts
	Files    int64
	Media    int64 // bytes of images, audio and files in the request; what it refers to by a URL has none
	Estimate int64 // tokens that it probably has
}

// The most tokens that providers count for what is not text. A request that a provider counts more for is booked at its cost all the
// same, and logged.
const (
	promptOverhead = 64      // of a request: the frame that a provider puts around it
	partOverhead   = 16      // of a message or a tool
	toolsOverhead  = 1024    // what a provider says about tools, once
	imageTokens    = 20_000  // of a large photo, in models that see it as it is: GPT-6 counts 14,364 at 12 megapixels, Qwen's at most 16,386
	audioTokens    = 60_000  // half an hour at 32 a second, by a URL
	fileTokens     = 200_000 // by a URL or an identifier: a long document as text and pages
	bytesPerAudio  = 64      // bytes of a token of audio, at the lowest bit rate
)

// ImageTokens returns the most tokens of an image, by a provider's name for the model; 0 if that is not known.
func ImageTokens(model string) int64 {
	for _, of := range perImage {
		if strings.Contains(model, of.name) {
			return of.most
		}
	}
	return 0
}

// perImage are models by a part of their names, those with longer names first.
var perImage = [...]struct {
	name string
	most int64
}{
	{"gpt-4o-mini", 48_169}, // 2,833 and 5,667 for each of 4 × 2 tiles: 33 times those of gpt-4o, at a price as much lower
	{"gpt-4o", 5000},        // 85 and 170 for each of 8 tiles: 1,445
	{"gpt-4.1", 5000},       // 1,536 patches at most, times 2.46 in the smallest model: 3,779
	{"claude", 5000},        // some 4,800 in high resolution
	{"gemini", 5000},        // 2,240 in ultra high resolution; 258 for each tile of older ones
}

// Tokens returns the most tokens that the prompt has.
func (p *Prompt) Tokens() int64 {
	n := p.Text + promptOverhead + partOverhead*p.Parts + cmp.Or(p.PerImage, imageTokens)*p.Images
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

// million is how many tokens a price is for.
const million = 1_000_000

// AddTarget makes the need that of a request which may also be sent to a target with these prices. n.MaxTokens is the limit of each
// choice, and n.Completion how many tokens all of them probably have.
func (n *Need) AddTarget(prices *cost.Prices, p *Prompt, choices int64) {
	if prices == nil {
		return
	}
	prompt := p.Tokens()
	// Costs are rounded half up, the ceilings of parts up.
	fixed := prices.Ceiling(prompt, 0).Plus(1)
	n.Fixed = max(n.Fixed, fixed)
	n.PerMillion = max(n.PerMillion, prices.Ceiling(prompt, million*choices)-fixed+2)
	n.Estimate = max(n.Estimate, prices.Cost(cost.Tokens{Prompt: p.Estimate, Completion: n.Completion}))
}

// Ceiling returns the most that the request costs.
func (n *Need) Ceiling() cost.Nano { return n.Fixed.Plus(costOf(n.PerMillion, n.MaxTokens)) }

// Budgeted reports whether one of the scopes has a budget, for which what a request costs must be known.
func (s *Scopes) Budgeted() bool {
	for _, a := range s {
		if a != nil && len(a.budgets) > 0 {
			return true
		}
	}
	return false
}

// Strict reports whether one of the scopes has a strict budget, for which the tokens of a response must have a limit.
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

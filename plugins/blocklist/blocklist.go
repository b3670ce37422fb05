// Package blocklist is a filter plugin that finds the phrases of a list, regardless of case, and masks them, rejects
// the request or response, or tags the request.
//
// Phrases and text are compared after Unicode simple case folding, and all white space characters are equal. Accents,
// ligatures, and digits that resemble letters are not normalized. By default, a phrase must begin and end at word
// boundaries. Scripts that do not separate words by spaces (Chinese, Japanese, Korean, Thai and others) have no words
// in this sense, so their phrases are found anywhere.
package blocklist

import (
	"errors"

	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/filter"
)

func init() { filter.RegisterAs[blocklist]("blocklist") }

// blocklist is an instance of the plugin.
type blocklist struct {
	options
	finder
}

var _ filter.Configurer = (*blocklist)(nil)

var (
	errTagNotListed = errors.New("the filter's tags do not list its option tag")
	refusal         = &sdk.Failure{Kind: abi.FailContentPolicy, Code: "blocked_phrase", Message: "The text contains a blocked phrase."}
)

// Text finds phrases in a piece of text.
func (p *blocklist) Text(t *filter.Text) error {
	if p.action == tag && !t.OfRequest() {
		return nil
	}
	text := t.Bytes()
	p.scan(text, t.Complete())
	if len(p.found) > 0 {
		switch p.action {
		case refuse:
			return refusal
		case tag:
			if !t.Tag(p.tag) {
				return errTagNotListed
			}
		case mask:
			for _, f := range p.found {
				t.Replace(f.from, f.to, p.mask)
			}
		}
	}
	if held := len(text) - p.hold; held > 0 {
		t.Hold(held)
	}
	return nil
}

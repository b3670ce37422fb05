// Package blocklist is the filter plugin that finds the phrases of a list, whatever their case, and masks them, refuses the request or
// the response, or tags the request.
//
// A phrase and a text are equal if they are after Unicode's simple case folding, with every white space character equal to a space.
// Nothing else is folded: an accent, a ligature or a digit in place of a letter makes another text. By default a phrase neither begins
// nor ends within a word. Where words are written without spaces (Chinese, Japanese, Korean, Thai and others) there are no words in that sense, and
// a phrase is found anywhere.
package blocklist

import (
	"errors"

	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/filter"
)

func init() { filter.RegisterAs[blocklist]("blocklist") }

// blocklist is one use of the plugin.
type blocklist struct {
	options
	finder
}

var _ filter.Configurer = (*blocklist)(nil)

var (
	errTag  = errors.New("the filter's tags do not list its option tag")
	refusal = &sdk.Failure{Kind: abi.FailContentPolicy, Code: "blocked_phrase", Message: "The text contains a blocked phrase."}
)

// Text finds what is in a text.
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
				return errTag
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

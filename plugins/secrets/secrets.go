package secrets

import (
	"errors"

	"github.com/sluice-gateway/sluice/sdk/filter"
)

func init() { filter.RegisterAs[secrets]("secrets") }

// secrets is an instance of the plugin.
type secrets struct {
	options
	scanner
}

var _ filter.Configurer = (*secrets)(nil)

var errTagNotListed = errors.New("the filter's tags do not list its option tag")

// Text finds secrets in a piece of text.
func (p *secrets) Text(t *filter.Text) error {
	if p.action == tag && !t.OfRequest() {
		return nil
	}
	text := t.Bytes()
	p.scan(text, t.Held, t.Complete())
	for _, f := range p.found {
		if f.kind == none {
			if p.action == mask {
				t.Replace(f.from, f.to, "")
			}
			continue
		}
		if isAllowed(text[f.from:f.to], f.kind, p.allow) {
			continue
		}
		switch p.action {
		case mask:
			t.Replace(f.from, f.to, p.masks[f.kind])
		case refuse:
			return refusals[f.kind]
		case tag:
			if !t.Tag(p.tag) {
				return errTagNotListed
			}
		}
	}
	if held := len(text) - p.hold; held > 0 {
		t.Hold(held)
	}
	return nil
}

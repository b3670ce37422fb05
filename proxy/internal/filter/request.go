package filter

import (
	"context"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Announce passes the document that describes the request to the filters, before any of its texts.
func (c *Chain) Announce(ctx context.Context, input []byte) error {
	for _, s := range c.stages {
		if err := s.filter.Binding.FilterRequest(ctx, &s.state, input); err != nil {
			if err := s.failure(err); err != nil {
				return err
			}
		}
	}
	return nil
}

// Request passes the texts of a request through the filters and appends the edited body to dst. If no filter changes a
// text, it returns dst as it is, and changed is false.
func (c *Chain) Request(ctx context.Context, api string, body, dst []byte) (_ []byte, changed bool, err error) {
	var doc jsondoc.Doc
	if err := doc.Parse(body, jsondoc.Limits{}); err != nil {
		return dst, false, err
	}
	var edits jsondoc.Edits
	edits.Reset(&doc)
	const flags = abi.TextOfRequest
	err = clientapi.Texts(&doc, api, func(v jsondoc.Value, what abi.What, message int32, json bool) error {
		if !json {
			return c.filterString(ctx, v, what, message, flags, &edits)
		}
		inside := append([]byte(nil), v.Inside()...)
		if v.Escaped() {
			inside = v.AppendText(inside[:0])
		}
		out, unchanged, err := c.filterStrings(ctx, what, message, flags, inside)
		if err == nil && !unchanged {
			c.replaceString(&edits, v, out)
		}
		return err
	})
	if err != nil || edits.Len() == 0 {
		return dst, false, err
	}
	dst, err = edits.Apply(dst)
	return dst, err == nil, err
}

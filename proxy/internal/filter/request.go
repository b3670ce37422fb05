package filter

import (
	"context"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Announce tells the filters of a request that begins; input is the document that describes it.
func (c *Chain) Announce(ctx context.Context, input []byte) error {
	for _, u := range c.uses {
		if err := u.filter.Binding.FilterRequest(ctx, &u.run, input); err != nil {
			if err := u.failure(err); err != nil {
				return err
			}
		}
	}
	return nil
}

// Request takes the texts of a request through the filters. It appends to dst the body as they leave it; changed is false, and dst unchanged,
// where that is body.
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
			return c.value(ctx, v, what, message, flags, &edits)
		}
		inside := append([]byte(nil), v.Inside()...)
		if v.Escaped() {
			inside = v.AppendText(inside[:0])
		}
		out, same, err := c.strings(ctx, what, message, flags, inside)
		if err == nil && !same {
			c.set(&edits, v, out)
		}
		return err
	})
	if err != nil || edits.Len() == 0 {
		return dst, false, err
	}
	dst, err = edits.Apply(dst)
	return dst, err == nil, err
}

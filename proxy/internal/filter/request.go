package filter

import (
	"context"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Announce passes the document that describes the request to the filters, before any of its texts.
func (c *Chain) Announce(ctx context.Context, input []byte) error {
	for _, s := range c.stages {
		if !s.filter.Binding.ReadsRequest() {
			continue
		}
		if err := s.filter.Binding.FilterRequest(ctx, &s.state, input); err != nil {
			if err := s.failure(err); err != nil {
				return err
			}
		}
	}
	return nil
}

// Request passes the texts of a request through the filters. changed tells whether they change any; AppendRequest then
// returns the edited body. A change of a fixed text rejects the request. Reasoning that is changed loses its signature,
// like that of responses.
func (c *Chain) Request(ctx context.Context, api string, doc *jsondoc.Doc) (changed bool, err error) {
	edits := &c.requestEdits
	edits.Reset(doc)
	var removed jsondoc.Value // the last signature that was removed
	err = clientapi.Texts(doc, api, func(t clientapi.Text) error {
		before := edits.Len()
		if err := c.filterRequestText(ctx, t, edits); err != nil || edits.Len() == before {
			return err
		}
		if t.Fixed {
			return apierror.Invalid("filter_refused", clientapi.Path(t.Value),
				"A filter of the gateway replaces text in '%s', which must not be changed.", clientapi.Path(t.Value))
		}
		if t.Seal.Exists() && t.Seal != removed {
			edits.DeleteValue(t.Seal)
			removed = t.Seal
		}
		return nil
	})
	return err == nil && edits.Len() > 0, err
}

// AppendRequest appends the body of the request as the filters have changed it. The document that was passed to Request
// must still be valid.
func (c *Chain) AppendRequest(dst []byte) ([]byte, error) { return c.requestEdits.Apply(dst) }

// filterRequestText passes a text of a request through the filters, and records an edit if they change it.
func (c *Chain) filterRequestText(ctx context.Context, t clientapi.Text, edits *jsondoc.Edits) error {
	const flags = abi.TextOfRequest
	v := t.Value
	if !t.JSON {
		return c.filterString(ctx, v, t.What, t.Message, flags, edits)
	}
	inside := append([]byte(nil), v.Inside()...)
	if v.Escaped() {
		inside = v.AppendText(inside[:0])
	}
	out, unchanged, err := c.filterStrings(ctx, t.What, t.Message, flags, inside)
	if err == nil && !unchanged {
		c.replaceString(edits, v, out)
	}
	return err
}

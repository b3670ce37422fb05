package responses

import (
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi/chatwriter"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/thinking"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Request is a parsed and validated request of the Responses API. It implements clientapi.Request.
//
// Parsing an ordinary body into a reused Request allocates nothing but the model's name, warnings and opened seals.
type Request struct {
	sealer *thinking.Sealer
	store  Store // nil if responses are not stored

	doc    jsondoc.Doc
	body   []byte
	limits clientapi.Limits
	facts  clientapi.Facts

	m        members
	items    []item
	tools    []tool
	renamed  []Tool // the result of Tools
	names    []byte // memory for the names in renamed
	scratch  []byte // for the text of an escaped string
	counting bool   // the request only asks for its number of input tokens

	client        string   // the client that Expand was called for
	full          *Request // the request with references resolved
	expanded      bool     // full is in use
	previousItems int      // number of items of full that come from previous_response_id

	calls callTable
	chat  chatwriter.Writer
}

var (
	_ clientapi.StatefulRequest = (*Request)(nil)
	_ clientapi.CountRequest    = (*Request)(nil)
)

// NewRequest returns a Request that opens reasoning sealed by sealer, and finds earlier responses in store. store may
// be nil.
func NewRequest(sealer *thinking.Sealer, store Store) *Request {
	return &Request{sealer: sealer, store: store}
}

// Reset implements clientapi.Request. It frees buffers that a very large request has grown.
func (r *Request) Reset() {
	const keepItems, keepScratch = 1 << 10, 64 << 10
	if r.full != nil {
		r.full.Reset()
	}
	r.doc.Reset()
	r.chat.Reset()
	clear(r.facts.Warnings)
	*r = Request{
		sealer: r.sealer, store: r.store, doc: r.doc, facts: clientapi.Facts{N: 1, Warnings: r.facts.Warnings[:0]},
		items: trim(r.items, keepItems), tools: trim(r.tools, keepItems), renamed: trim(r.renamed, keepItems), names: trim(r.names, keepScratch),
		scratch: trim(r.scratch, keepScratch), full: r.full, calls: r.calls.reset(), chat: r.chat,
	}
}

// trim empties a slice, and frees its memory if its capacity exceeds keep elements.
func trim[E any](s []E, keep int) []E {
	if cap(s) > keep {
		return nil
	}
	clear(s)
	return s[:0]
}

// Parse implements clientapi.Request. An optional member that is null counts as absent.
func (r *Request) Parse(body []byte, l clientapi.Limits) *apierror.Error {
	r.Reset()
	return r.parse(body, l)
}

// ParseCount parses a request for the number of input tokens, in which input is optional.
func (r *Request) ParseCount(body []byte, l clientapi.Limits) *apierror.Error {
	r.Reset()
	r.counting = true
	return r.parse(body, l)
}

func (r *Request) parse(body []byte, l clientapi.Limits) *apierror.Error {
	r.body, r.limits = body, l.WithDefaults()
	root, e := clientapi.ReadDocument(&r.doc, body, &r.limits, &r.facts, clientapi.SnakeCase)
	if e != nil {
		return e
	}
	return r.readRequest(root)
}

// Describe implements clientapi.Request. After Expand it includes what the request refers to.
func (r *Request) Describe() *clientapi.Facts { return &r.facts }

// Document implements clientapi.Request.
func (r *Request) Document() (*jsondoc.Doc, []byte) { return &r.doc, r.body }

// FitModel implements clientapi.Request. It lowers max_output_tokens in the client's document. The API has no thinking
// budget, and an unsupported effort is left to the provider.
func (r *Request) FitModel(maxTokens int64, thinking, strict bool) *apierror.Error {
	asked, v := r.facts.MaxTokens, r.m.maxOutputTokens
	if maxTokens <= 0 || asked <= maxTokens {
		return nil
	}
	if strict {
		return clientapi.InvalidValue(v, clientapi.CodeIntegerAbove, "'%s' is %d, but the model generates at most %d tokens.", asked, maxTokens)
	}
	v.LowerInt(maxTokens)
	if r.expanded {
		r.full.m.maxOutputTokens.LowerInt(maxTokens)
	}
	r.facts.MaxTokens = maxTokens
	r.facts.Warn(abi.WarnClamped, "max_output_tokens")
	return nil
}

// readModel copies the model's name.
func (r *Request) readModel(v, root jsondoc.Value) *apierror.Error {
	if e := clientapi.NeedString(v, root, "model"); e != nil {
		return e
	}
	if len(v.Inside()) == 0 {
		return apierror.Invalid(clientapi.CodeEmptyString, "model", "'model' must not be empty.")
	}
	r.facts.Model = v.Text()
	if strings.IndexByte(r.facts.Model, 0) >= 0 {
		return apierror.Invalid(clientapi.CodeInvalidValue, "model", "'model' must not contain the character U+0000.")
	}
	return nil
}

// keyword returns the text of a string, for comparison with keywords of the API. It is valid until the next call.
func (r *Request) keyword(v jsondoc.Value) []byte { return clientapi.Keyword(v, &r.scratch) }

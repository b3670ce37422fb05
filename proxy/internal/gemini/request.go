package gemini

import (
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/thinking"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Request is a parsed and validated generateContent or countTokens request. It implements clientapi.Request.
//
// Parsing an ordinary body into a reused Request does not allocate. A Request is not safe for concurrent use.
type Request struct {
	sealer *thinking.Sealer

	doc     jsondoc.Doc
	body    []byte
	limits  clientapi.Limits
	facts   clientapi.Facts
	m       members
	config  config
	scratch []byte        // for the text of an escaped string
	camel   []byte        // for a name that is converted to camel case
	part    part          // the part that is being checked
	twice   jsondoc.Value // a member that field has found in two spellings

	edited     clientapi.EditedDocument // the document for a provider that speaks the API
	hasSeal    bool                     // the content that is being checked has a seal
	noThinking bool                     // the model does not support thinking

	chat lowering
}

// members are the members of the request that the gateway reads. A member that is null counts as absent.
type members struct {
	contents, system, tools, toolConfig, config, safety, cached, labels jsondoc.Value
	callingConfig, mode, allowed                                        jsondoc.Value // of toolConfig.functionCallingConfig
}

var (
	_ clientapi.CountRequest     = (*Request)(nil)
	_ clientapi.AddressedRequest = (*Request)(nil)
)

// NewRequest returns a Request that opens reasoning sealed by sealer. If sealer is nil, no sealed reasoning can be
// opened.
func NewRequest(sealer *thinking.Sealer) *Request { return &Request{sealer: sealer} }

// Describe implements clientapi.Request.
func (r *Request) Describe() *clientapi.Facts { return &r.facts }

// Address implements clientapi.AddressedRequest.
func (r *Request) Address(model string, stream bool) { r.facts.Model, r.facts.Stream = model, stream }

// Reset drops the request and its reference to the body. It frees buffers that a very large request has grown.
func (r *Request) Reset() {
	const keepScratch = 64 << 10
	r.doc.Reset()
	r.edited.Reset()
	if cap(r.scratch) > keepScratch {
		r.scratch = nil
	}
	clear(r.facts.Warnings)
	r.facts = clientapi.Facts{N: 1, IncludeUsage: true, Warnings: r.facts.Warnings[:0]}
	r.body, r.m, r.config, r.part, r.limits = nil, members{}, config{}, part{}, clientapi.Limits{}
	r.noThinking, r.twice = false, jsondoc.Value{}
	r.chat.reset()
}

// Parse implements clientapi.Request. Address must have been called before.
//
// Where the API's documentation is silent, these rules hold. A member that is null counts as absent. A member that is
// given in both of its spellings is rejected like a duplicate one. An unpaired surrogate is replaced by U+FFFD, in the
// body itself. Unknown members are accepted.
func (r *Request) Parse(body []byte, l clientapi.Limits) *apierror.Error {
	root, e := r.parse(body, l)
	if e != nil {
		return e
	}
	return r.readRequest(root)
}

// ParseCount parses a countTokens request, which has either contents or a complete request in generateContentRequest.
func (r *Request) ParseCount(body []byte, l clientapi.Limits) *apierror.Error {
	root, e := r.parse(body, l)
	if e != nil {
		return e
	}
	var request jsondoc.Value
	for v := root.First(); v.Exists(); v = v.Next() {
		if string(r.fieldName(v)) == "generateContentRequest" {
			if e := set(&request, v); e != nil {
				return e
			}
		}
	}
	if request.Exists() {
		if request.Kind() != jsondoc.Object {
			return clientapi.WrongType(request, "an object")
		}
		root = request
	}
	return r.readRequest(root)
}

func (r *Request) parse(body []byte, l clientapi.Limits) (jsondoc.Value, *apierror.Error) {
	model, stream := r.facts.Model, r.facts.Stream
	r.Reset()
	r.Address(model, stream)
	r.limits, r.body = l.WithDefaults(), body
	if model == "" {
		e := apierror.Invalid(clientapi.CodeMissing, "model", "The path of the URL does not contain a model.")
		return jsondoc.Value{}, e
	}
	return clientapi.ReadDocument(&r.doc, body, &r.limits, &r.facts, clientapi.CamelCase)
}

// edit returns the recorder of edits of the client's document.
func (r *Request) edit() *jsondoc.Edits { return r.edited.Edit(&r.doc) }

// Document implements clientapi.Request. It returns the client's document without the gateway's seals (see cutSeals),
// and with the limits that FitModel has lowered.
func (r *Request) Document() (*jsondoc.Doc, []byte) {
	return r.edited.Document(&r.doc, r.body, &r.limits)
}

// FitModel implements clientapi.Request. Thinking is accepted even for models without thinking, because Google's
// clients ask every model for it. AppendChat then drops it with a warning.
func (r *Request) FitModel(maxTokens int64, thinking, strict bool) *apierror.Error {
	f, c := &r.facts, &r.config
	asked, budget := f.MaxTokens, f.Thinking.BudgetTokens
	r.noThinking = !thinking
	if strict && maxTokens > 0 && asked > maxTokens {
		return clientapi.InvalidValue(c.maxTokens, clientapi.CodeIntegerAbove, "'%s' is %d, but the model generates at most %d tokens.", asked, maxTokens)
	}
	if strict || maxTokens <= 0 {
		return nil
	}
	if asked > maxTokens {
		f.MaxTokens = maxTokens
		c.maxTokens.LowerInt(maxTokens)
		f.Warn(abi.WarnClamped, clientapi.Path(c.maxTokens))
	}
	// A budget that was not below the limit in the first place is the client's mistake, which the provider reports.
	if budget >= maxTokens && (asked == 0 || budget < asked) {
		room := maxTokens / 2
		if asked > 0 {
			room = min(room, asked-budget)
		}
		f.Thinking.BudgetTokens = max(maxTokens-room, 1)
		c.budget.LowerInt(f.Thinking.BudgetTokens)
		f.Warn(abi.WarnClamped, clientapi.Path(c.budget))
	}
	return nil
}

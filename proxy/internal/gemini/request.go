package gemini

import (
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/thinking"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Request is a request for content that has been read and checked once. It implements clientapi.Request.
//
// A Request that is used again does not allocate for an ordinary body. It is not safe for concurrent use.
type Request struct {
	sealer *thinking.Sealer

	doc     jsondoc.Doc
	body    []byte
	limits  clientapi.Limits
	facts   clientapi.Facts
	m       members
	config  config
	scratch []byte // the text of a short escaped string
	camel   []byte // a name in camel case
	part    part   // the one that is being read

	edits      jsondoc.Edits // that make the document fit for a provider that speaks the API
	edited     bool          // edits holds some
	sealed     bool          // the content that is being read has a seal
	noThinking bool          // the model does not support thinking
	native     nativeDocument

	chat lowering
}

// members are the request's members that the gateway knows. null counts as absent.
type members struct {
	contents, system, tools, toolConfig, config, safety, cached, labels jsondoc.Value
	calling, mode, allowed                                              jsondoc.Value // of toolConfig.functionCallingConfig
}

// nativeDocument is the client's document with edits.
type nativeDocument struct {
	doc   jsondoc.Doc
	body  []byte
	ready bool
}

var (
	_ clientapi.CountRequest     = (*Request)(nil)
	_ clientapi.AddressedRequest = (*Request)(nil)
)

// NewRequest returns a Request that opens the seals of sealer. Without one (nil) all seals count as another gateway's.
func NewRequest(sealer *thinking.Sealer) *Request { return &Request{sealer: sealer} }

// Describe implements clientapi.Request.
func (r *Request) Describe() *clientapi.Facts { return &r.facts }

// Address implements clientapi.AddressedRequest.
func (r *Request) Address(model string, stream bool) { r.facts.Model, r.facts.Stream = model, stream }

// Reset drops the request and releases its body. Memory that only a very large request needs is freed.
func (r *Request) Reset() {
	const keepNative = 64 << 10
	r.doc.Reset()
	if r.edited {
		r.edits.Reset(nil)
	}
	if r.native.ready {
		r.native.doc.Reset()
		r.native.ready = false
	}
	if r.native.body = r.native.body[:0]; cap(r.native.body) > keepNative {
		r.native.body = nil
	}
	if cap(r.scratch) > keepNative {
		r.scratch = nil
	}
	clear(r.facts.Warnings)
	r.facts = clientapi.Facts{N: 1, IncludeUsage: true, Warnings: r.facts.Warnings[:0]}
	r.body, r.m, r.config, r.part, r.limits = nil, members{}, config{}, part{}, clientapi.Limits{}
	r.edited, r.noThinking = false, false
	r.chat.reset()
}

// Parse implements clientapi.Request. What Address was told before it holds.
//
// Where the API leaves it open: null counts as absent; a member that is given in both of its spellings is rejected, as a duplicate
// one is; half of a surrogate pair becomes U+FFFD, in the body itself. Members that the package does not know are accepted.
func (r *Request) Parse(body []byte, l clientapi.Limits) *apierror.Error {
	root, e := r.parse(body, l)
	if e != nil {
		return e
	}
	return r.readRequest(root)
}

// ParseCount is Parse for a request to count tokens: its contents, or a whole request in generateContentRequest.
func (r *Request) ParseCount(body []byte, l clientapi.Limits) *apierror.Error {
	root, e := r.parse(body, l)
	if e != nil {
		return e
	}
	var whole jsondoc.Value
	for v := root.First(); v.Exists(); v = v.Next() {
		if string(r.fieldName(v)) == "generateContentRequest" {
			if e := set(&whole, v); e != nil {
				return e
			}
		}
	}
	if whole.Exists() {
		if whole.Kind() != jsondoc.Object {
			return clientapi.WrongType(whole, "an object")
		}
		root = whole
	}
	return r.readRequest(root)
}

func (r *Request) parse(body []byte, l clientapi.Limits) (jsondoc.Value, *apierror.Error) {
	model, stream := r.facts.Model, r.facts.Stream
	r.Reset()
	r.Address(model, stream)
	r.limits, r.body = l.WithDefaults(), body
	if model == "" {
		e := apierror.Invalid(clientapi.CodeMissing, "model", "The address names no model.")
		return jsondoc.Value{}, e
	}
	return clientapi.ReadDocument(&r.doc, body, &r.limits, &r.facts)
}

// edit is where the edits of the client's document are recorded.
func (r *Request) edit() *jsondoc.Edits {
	if !r.edited {
		r.edited = true
		r.edits.Reset(&r.doc)
	}
	return &r.edits
}

// Document implements clientapi.Request. It is the client's own document, byte for byte, unless that holds seals, which are then
// cut out of it: see cutSeal.
func (r *Request) Document() (*jsondoc.Doc, []byte) {
	if !r.edited {
		return &r.doc, r.body
	}
	n := &r.native
	if !n.ready {
		body, err := r.edits.Apply(n.body[:0])
		if err == nil {
			err = n.doc.Parse(body, r.limits.Document())
		}
		if err != nil {
			panic("gemini: a document does not survive its edits: " + err.Error()) // values are removed or replaced, each once
		}
		n.body, n.ready = body, true
	}
	return &n.doc, n.body
}

// FitModel implements clientapi.Request. A model that does not support thinking does without, with a warning when the request is
// lowered: Google's clients ask every model for it.
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
	// A budget that did not leave room for a response before is the client's mistake, and its provider's to judge.
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

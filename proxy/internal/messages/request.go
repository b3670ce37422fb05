package messages

import (
	"errors"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/thinking"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Request is a Messages request that has been read and checked once. It implements clientapi.Request.
//
// A Request that is used again does not allocate for an ordinary body, but for Model. It is not safe for concurrent use.
type Request struct {
	sealer *thinking.Sealer

	doc      jsondoc.Doc
	body     []byte
	limits   clientapi.Limits
	facts    clientapi.Facts
	m        members
	counting bool   // the request only asks for its tokens
	scratch  []byte // the text of a short escaped string

	edits         jsondoc.Edits   // that make the document fit for a provider that speaks the API
	edited        bool            // edits holds some
	foreignBlocks int             // blocks of reasoning that the edits remove
	longNames     []jsondoc.Value // of tools that providers of other APIs know by another name
	noThinking    bool            // the model does not support thinking
	native        nativeDocument

	chat lowering
}

// members are the request's members that the gateway knows. Those that are null count as absent, but for unknown ones.
type members struct {
	model, messages, system, maxTokens, stream         jsondoc.Value
	temperature, topP, topK, stop, metadata            jsondoc.Value
	thinking, thinkingType, budget                     jsondoc.Value
	outputConfig, effort, format, outputFormat         jsondoc.Value
	tools, toolChoice, choiceType, choiceName, noMulti jsondoc.Value
	cacheControl, serviceTier, container, mcpServers   jsondoc.Value
}

// nativeDocument is the client's document with edits.
type nativeDocument struct {
	doc   jsondoc.Doc
	body  []byte
	ready bool
}

var _ clientapi.CountRequest = (*Request)(nil)

// NewRequest returns a Request that opens the seals of sealer. Without one (nil) all seals count as another gateway's.
func NewRequest(sealer *thinking.Sealer) *Request { return &Request{sealer: sealer} }

// Describe implements clientapi.Request.
func (r *Request) Describe() *clientapi.Facts { return &r.facts }

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
	clear(r.facts.Warnings)
	r.facts = clientapi.Facts{N: 1, IncludeUsage: true, Warnings: r.facts.Warnings[:0]}
	r.body, r.m, r.limits, r.counting, r.edited, r.foreignBlocks, r.noThinking = nil, members{}, clientapi.Limits{}, false, false, 0, false
	r.longNames = r.longNames[:0]
	r.chat.reset()
}

// Parse implements clientapi.Request.
//
// Where the API leaves it open: null counts as absent for every member that may be absent; an integer must be written as one, 5
// and not 5.0 or 5e0; a duplicate member name is rejected, however it is written; half of a surrogate pair becomes U+FFFD, in
// the body itself. Members and block types that the package does not know are accepted.
func (r *Request) Parse(body []byte, l clientapi.Limits) *apierror.Error {
	r.Reset()
	return r.parse(body, l)
}

// ParseCount is Parse for a request to count tokens, which need not have max_tokens.
func (r *Request) ParseCount(body []byte, l clientapi.Limits) *apierror.Error {
	r.Reset()
	r.counting = true
	return r.parse(body, l)
}

func (r *Request) parse(body []byte, l clientapi.Limits) *apierror.Error {
	r.limits, r.body = l.WithDefaults(), body
	err := r.doc.Parse(body, r.limits.Document())
	if syntax, ok := errors.AsType[*jsondoc.SyntaxError](err); ok && syntax.Surrogate {
		err = r.repairSurrogates()
	}
	if err != nil {
		return clientapi.Unreadable(err)
	}
	root := r.doc.Root()
	if root.Kind() != jsondoc.Object {
		return apierror.Invalid(clientapi.CodeInvalidType, "", "The request body must be a JSON object.")
	}
	return r.readRequest(root)
}

// repairSurrogates replaces unpaired surrogates in the body, which could not be parsed for them: half of a pair is what is left
// where a client cuts a text, and means no character.
func (r *Request) repairSurrogates() error {
	offsets := jsondoc.RepairSurrogates(r.body)
	if err := r.doc.Parse(r.body, r.limits.Document()); err != nil {
		return err
	}
	for _, offset := range offsets {
		r.facts.Warn(abi.WarnChanged, r.path(r.doc.At(offset)))
	}
	return nil
}

// edit is where the edits of the client's document are recorded.
func (r *Request) edit() *jsondoc.Edits {
	if !r.edited {
		r.edited = true
		r.edits.Reset(&r.doc)
	}
	return &r.edits
}

// Document implements clientapi.Request. It is the client's own document, byte for byte, unless that holds reasoning of
// another origin, which is then cut out of it: see cutReasoning.
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
			panic("messages: a document does not survive its edits: " + err.Error()) // values are only removed, each once
		}
		n.body, n.ready = body, true
	}
	return &n.doc, n.body
}

// FitModel implements clientapi.Request. Adaptive thinking and an effort, which Claude Code asks every model for, are not refused:
// the client leaves it to the model. A provider that speaks the API gets both as they are, since other members depend on them,
// and any other does without them if the model does not support thinking.
func (r *Request) FitModel(maxTokens int64, thinking, strict bool) *apierror.Error {
	f := &r.facts
	asked, budget := f.MaxTokens, f.Thinking.BudgetTokens
	if strict && maxTokens > 0 && asked > maxTokens {
		return apierror.Invalid(clientapi.CodeIntegerAbove, "max_tokens", "%d > %d, which is the maximum allowed number of output tokens for %s", asked, maxTokens, quotable(f.Model))
	}
	if !thinking && f.Thinking.Mode == clientapi.ThinkingEnabled {
		return apierror.Invalid(clientapi.CodeUnsupportedParameter, "thinking", "This model does not support thinking.")
	}
	r.noThinking = !thinking
	if strict || maxTokens <= 0 {
		return nil
	}
	if asked > maxTokens {
		f.MaxTokens = maxTokens
		r.m.maxTokens.LowerInt(maxTokens)
		f.Warn(abi.WarnClamped, "max_tokens")
	}
	// A budget that did not leave room for a response before is the client's mistake, and its provider's to judge.
	if budget >= maxTokens && budget < asked {
		f.Thinking.BudgetTokens = max(maxTokens-min(maxTokens/2, asked-budget), 1)
		r.m.budget.LowerInt(f.Thinking.BudgetTokens)
		f.Warn(abi.WarnClamped, "thinking.budget_tokens")
	}
	return nil
}

package messages

import (
	"errors"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/thinking"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Request is a parsed and validated Messages request. It implements clientapi.Request.
//
// Parsing an ordinary body into a reused Request allocates nothing but the copy of the model's name. A Request is not
// safe for concurrent use.
type Request struct {
	sealer *thinking.Sealer

	doc      jsondoc.Doc
	body     []byte
	limits   clientapi.Limits
	facts    clientapi.Facts
	m        members
	counting bool   // the request only asks for its number of tokens
	scratch  []byte // for the text of an escaped string

	edited        clientapi.EditedDocument // the document for a provider that speaks the API
	foreignBlocks int                      // number of reasoning blocks so far that came from other APIs: see foreign
	noThinking    bool                     // the model does not support thinking

	chat lowering
}

// members are the members of the request that the gateway reads. A member that is null counts as absent.
type members struct {
	model, messages, system, maxTokens, stream            jsondoc.Value
	temperature, topP, topK, stop, metadata               jsondoc.Value
	thinking, thinkingType, budget                        jsondoc.Value
	outputConfig, effort, format, outputFormat            jsondoc.Value
	tools, toolChoice, choiceType, choiceName, noParallel jsondoc.Value
	cacheControl, serviceTier, container, mcpServers      jsondoc.Value
	thread                                                jsondoc.Value
}

var _ clientapi.CountRequest = (*Request)(nil)

// NewRequest returns a Request that opens reasoning sealed by sealer. If sealer is nil, no sealed reasoning can be
// opened.
func NewRequest(sealer *thinking.Sealer) *Request { return &Request{sealer: sealer} }

// Describe implements clientapi.Request.
func (r *Request) Describe() *clientapi.Facts { return &r.facts }

// Reset drops the request and its reference to the body. It frees buffers that a very large request has grown.
func (r *Request) Reset() {
	r.doc.Reset()
	r.edited.Reset()
	clear(r.facts.Warnings)
	r.facts = clientapi.Facts{N: 1, IncludeUsage: true, Warnings: r.facts.Warnings[:0]}
	r.body, r.m, r.limits, r.counting, r.foreignBlocks, r.noThinking = nil, members{}, clientapi.Limits{}, false, 0, false
	r.chat.reset()
}

// Parse implements clientapi.Request.
//
// Where the API's documentation is silent, these rules hold. An optional member that is null counts as absent. Integers
// must be written without fraction and exponent: 5, not 5.0 or 5e0. Duplicate member names are rejected, even if they
// are escaped differently. An unpaired surrogate is replaced by U+FFFD, in the body itself. Unknown members and block
// types are accepted.
func (r *Request) Parse(body []byte, l clientapi.Limits) *apierror.Error {
	r.Reset()
	return r.parse(body, l)
}

// ParseCount parses a count_tokens request, in which max_tokens is optional.
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
	if e := r.checkNames(root); e != nil {
		return e
	}
	return r.readRequest(root)
}

// checkNames rejects a name that parsers which ignore case take for another one. metadata, which is not a map of the
// client's own as in other APIs, is checked as well.
func (r *Request) checkNames(root jsondoc.Value) *apierror.Error {
	for _, v := range [...]jsondoc.Value{root, root.Get("metadata")} {
		switch m, known := clientapi.AmbiguousName(v, clientapi.SnakeCase); {
		case known != "":
			return r.invalid(m, clientapi.CodeUnknownParameter, "Extra inputs are not permitted, did you mean `%s`?", known)
		case m.Exists():
			return r.invalid(m, clientapi.CodeInvalidValue, "Given twice, in two spellings of the name")
		}
	}
	return nil
}

// repairSurrogates replaces unpaired surrogates in the body and parses it again. Clients that truncate a text can cut a
// surrogate pair in half.
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

// edit returns the recorder of edits of the client's document.
func (r *Request) edit() *jsondoc.Edits { return r.edited.Edit(&r.doc) }

// Document implements clientapi.Request. It returns the client's document byte for byte, unless reasoning from other
// APIs must be removed (see cutReasoning) or FitModel has lowered a limit.
func (r *Request) Document() (*jsondoc.Doc, []byte) {
	return r.edited.Document(&r.doc, r.body, &r.limits)
}

// FitModel implements clientapi.Request. Adaptive thinking and an effort are accepted even for models without thinking,
// because Claude Code sends both to every model and they leave the decision to the model. A provider that speaks the
// API receives both unchanged, because other members depend on them; for other providers they are dropped if the model
// does not support thinking.
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
	// A budget that was not below max_tokens in the first place is the client's mistake, which the provider reports.
	if budget >= maxTokens && budget < asked {
		f.Thinking.BudgetTokens = max(maxTokens-min(maxTokens/2, asked-budget), 1)
		r.m.budget.LowerInt(f.Thinking.BudgetTokens)
		f.Warn(abi.WarnClamped, "thinking.budget_tokens")
	}
	return nil
}

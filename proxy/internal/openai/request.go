package openai

import (
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// Request is a chat completion request that has been read and checked once. Doc is that one reading: what a plugin looks
// up or edits, and what is forwarded, comes from it.
//
// The zero value is ready for Parse. A Request that is used again does not allocate for an ordinary body, but for Model.
// It is not safe for concurrent use.
type Request struct {
	Doc  jsondoc.Doc
	Body []byte // canonical: what was given to Parse, or a copy with edits. It must not change before Reset

	clientapi.Facts

	maxTokens  jsondoc.Value // that MaxTokens comes from
	budget     jsondoc.Value // that Thinking.BudgetTokens comes from
	calls      []openCall    // tool calls of the last assistant message
	unanswered int           // how many of calls have no tool message yet
	nextCall   int           // the call that the next tool message most likely responds to
	function   functionCall  // of the last assistant message
	toolNames  []toolName    // of tools and functions
	scratch    []byte        // the text of a short escaped string

	edits     jsondoc.Edits // that make the request canonical
	edited    bool          // edits holds some
	rewritten []byte        // the canonical request, where it is not the body given to Parse
}

// toolName is the name of a tool or of a legacy function.
type toolName struct {
	kind string // toolFunction or toolCustom
	name jsondoc.Value
}

// openCall is a tool call that tool messages must answer.
type openCall struct {
	id       jsondoc.Value
	answered bool
}

// Reset drops the request and releases its body. Memory that only a very large request needs is freed.
func (r *Request) Reset() {
	const keepRewritten = 64 << 10
	r.Doc.Reset()
	clear(r.Warnings)
	r.Warnings = r.Warnings[:0]
	r.forget()
	if r.rewritten = r.rewritten[:0]; cap(r.rewritten) > keepRewritten {
		r.rewritten = nil
	}
}

// forget drops what has been read, but neither what it was read from nor the warnings.
func (r *Request) forget() {
	if r.edited {
		r.edits.Reset(nil)
	}
	*r = Request{
		Doc: r.Doc, Facts: clientapi.Facts{N: 1, Warnings: r.Warnings}, calls: r.calls[:0], toolNames: r.toolNames[:0], scratch: r.scratch[:0],
		edits: r.edits, rewritten: r.rewritten,
	}
}

// Parse reads and checks a request's body, and makes it canonical. It keeps body, without a copy, until Reset, unless
// Rewritten. It never changes the length of body, but writes to it to repair unpaired surrogates. The error is a 400 whose Param
// is the path of the offending member, "messages[2].role"; the Request must be Reset or parsed again after one.
//
// Where the OpenAI API leaves it open: null counts as absent for every member that may be absent; an integer must be written
// as one, 5 and not 5.0 or 5e0; a duplicate member name is rejected, however it is written; unknown members are ignored.
func (r *Request) Parse(body []byte, l clientapi.Limits) *apierror.Error {
	r.Reset()
	l = l.WithDefaults()
	r.Body = body
	root, e := clientapi.ReadDocument(&r.Doc, body, &l, &r.Facts)
	if e != nil {
		return e
	}
	e = r.readRequest(root, &l)
	if e == nil && r.edited {
		e = r.rewrite(&l)
	}
	return e
}

// keyword is the text of a string that is compared with keywords of the API. It is valid until the next call.
func (r *Request) keyword(v jsondoc.Value) []byte { return clientapi.Keyword(v, &r.scratch) }

// FitModel implements clientapi.Request. A larger max_tokens is lowered in Body as well, and so is a thinking budget that
// would take all of it.
func (r *Request) FitModel(maxTokens int64, thinking, strict bool) *apierror.Error {
	asked, budget := r.MaxTokens, r.Thinking.BudgetTokens
	if strict && maxTokens > 0 && asked > maxTokens {
		return clientapi.InvalidValue(r.maxTokens, clientapi.CodeIntegerAbove, "'%s' is %d, but the model generates at most %d tokens.", asked, maxTokens)
	}
	if !thinking && r.Thinking.Asked() {
		return apierror.Invalid(clientapi.CodeUnsupportedParameter, "thinking", "'thinking' is not supported by this model.")
	}
	if strict || maxTokens <= 0 {
		return nil
	}
	if asked > maxTokens {
		r.MaxTokens = maxTokens
		r.lower(r.maxTokens, maxTokens)
	}
	// A budget that did not leave room for a response before is the client's mistake, and its provider's to judge.
	if budget >= maxTokens && (asked == 0 || budget < asked) {
		room := maxTokens / 2
		if asked > 0 {
			room = min(room, asked-budget)
		}
		r.Thinking.BudgetTokens = max(maxTokens-room, 1)
		r.lower(r.budget, r.Thinking.BudgetTokens)
	}
	return nil
}

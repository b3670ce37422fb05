package openai

import (
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// Request is a chat completions request. Its body is parsed and checked once, into Doc, which serves the plugin's
// lookups and edits as well as forwarding.
//
// The zero value is ready for Parse. Parsing an ordinary body with a reused Request allocates nothing but Model. A
// Request is not safe for concurrent use.
type Request struct {
	Doc  jsondoc.Doc
	Body []byte // the canonical request: the argument of Parse, or an edited copy; must not change before Reset

	clientapi.Facts

	maxTokens  jsondoc.Value // source of MaxTokens
	budget     jsondoc.Value // source of Thinking.BudgetTokens
	calls      []openCall    // tool calls of the last assistant message
	unanswered int           // number of calls without a tool message
	nextCall   int           // index of the call that the next tool message most likely belongs to
	function   functionCall  // function_call of the last assistant message
	toolNames  []toolName    // names of tools and functions
	scratch    []byte        // memory for keyword

	edits     jsondoc.Edits // edits that make the request canonical
	edited    bool          // edits is not empty
	rewritten []byte        // the canonical request if it differs from the argument of Parse
}

// toolName is the name of a tool or of a legacy function.
type toolName struct {
	kind string // toolFunction or toolCustom
	name jsondoc.Value
}

// openCall is a tool call for which a tool message must follow.
type openCall struct {
	id       jsondoc.Value
	answered bool
}

// Reset drops the request and releases its body. It frees buffers that only very large requests need.
func (r *Request) Reset() {
	const keepRewritten = 64 << 10
	r.Doc.Reset()
	clear(r.Warnings)
	r.Warnings = r.Warnings[:0]
	r.clearFacts()
	if r.rewritten = r.rewritten[:0]; cap(r.rewritten) > keepRewritten {
		r.rewritten = nil
	}
}

// clearFacts drops everything that was read from the request, except warnings. It keeps the document.
func (r *Request) clearFacts() {
	if r.edited {
		r.edits.Reset(nil)
	}
	*r = Request{
		Doc: r.Doc, Facts: clientapi.Facts{N: 1, Warnings: r.Warnings}, calls: r.calls[:0], toolNames: r.toolNames[:0], scratch: r.scratch[:0],
		edits: r.edits, rewritten: r.rewritten,
	}
}

// Parse reads and checks the body of a request, and makes it canonical. It retains body until Reset unless Rewritten
// reports true. It may overwrite bytes of body to repair unpaired surrogates, but never changes its length. An error
// has status 400, and its Param is the path of the offending member, for example "messages[2].role". After an error
// call Reset or Parse before using the Request again.
//
// The OpenAI API leaves some cases open. Here, null counts as absent for every optional member; an integer must be
// written as 5, not as 5.0 or 5e0; duplicate member names are rejected, even if they are escaped differently; unknown
// members are ignored.
func (r *Request) Parse(body []byte, l clientapi.Limits) *apierror.Error {
	r.Reset()
	l = l.WithDefaults()
	r.Body = body
	root, e := clientapi.ReadDocument(&r.Doc, body, &l, &r.Facts, clientapi.SnakeCase)
	if e != nil {
		return e
	}
	e = r.readRequest(root, &l)
	if e == nil && r.edited {
		e = r.rewrite(&l)
	}
	return e
}

// keyword returns the text of a string for comparison with keywords of the API. It is valid until the next call.
func (r *Request) keyword(v jsondoc.Value) []byte { return clientapi.Keyword(v, &r.scratch) }

// FitModel implements clientapi.Request. It also lowers max_tokens in Body if that exceeds the model's limit, and a
// thinking budget that would leave no tokens for the response.
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
		r.lowerInt(r.maxTokens, maxTokens)
	}
	// If the client's own budget leaves no tokens for a response, do not repair it: the provider rejects it.
	if budget >= maxTokens && (asked == 0 || budget < asked) {
		reserved := maxTokens / 2
		if asked > 0 {
			reserved = min(reserved, asked-budget)
		}
		r.Thinking.BudgetTokens = max(maxTokens-reserved, 1)
		r.lowerInt(r.budget, r.Thinking.BudgetTokens)
	}
	return nil
}

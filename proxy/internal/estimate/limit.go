package estimate

import (
	"cmp"
	"strconv"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// unknownMaxTokens is the limit of a response to which neither its client nor its model sets one, and that a strict budget bounds.
const unknownMaxTokens = 32 << 10

// MaxTokens is the limit of each choice of a request under a budget: the client's, otherwise what the provider is to be asked for. The
// model's largest and default limits are 0 where they are unset. The result is 0 where there is no text in the response.
func MaxTokens(r clientapi.Request, at clientapi.LimitMembers, maxTokens, defaultMaxTokens int64) int64 {
	f := r.Describe()
	switch {
	case f.MaxTokens > 0:
		return f.MaxTokens
	case at.Names == nil, asksForNone(r, at):
		return 0
	case defaultMaxTokens == 0:
		return cmp.Or(maxTokens, unknownMaxTokens)
	}
	// A default is for the response beside the thinking that the client has asked for.
	limit := defaultMaxTokens + f.Thinking.BudgetTokens
	if maxTokens > 0 {
		limit = min(limit, maxTokens)
	}
	return limit
}

// asksForNone reports whether a request limits its response to no tokens at all.
func asksForNone(r clientapi.Request, at clientapi.LimitMembers) bool {
	doc, _ := r.Document()
	in := doc.Root()
	if at.In != nil {
		in = anyMember(in, at.In)
	}
	n, ok := anyMember(in, at.Names).Int()
	return ok && n == 0
}

// anyMember is the first member of an object that has one of these names.
func anyMember(object jsondoc.Value, names []string) (v jsondoc.Value) {
	for i := 0; i < len(names) && !v.Exists(); i++ {
		v = object.Get(names[i])
	}
	return v
}

// AppendWithLimit appends a document with a limit of tokens, in the place of values that mean none.
func AppendWithLimit(dst, doc []byte, at clientapi.LimitMembers, tokens int64) ([]byte, error) {
	var d jsondoc.Doc
	limits := clientapi.Limits{}.Lowered()
	if err := d.Parse(doc, limits.Document()); err != nil {
		return dst, err
	}
	var edits jsondoc.Edits
	edits.Reset(&d)
	in, limit := d.Root(), strconv.FormatInt(tokens, 10)
	if at.In != nil {
		object := anyMember(in, at.In)
		switch {
		case !object.Exists():
			edits.AddMember(in, at.In[0], `{"`, at.Names[0], `":`, limit, `}`)
			return edits.Apply(dst)
		case object.Kind() != jsondoc.Object: // null
			edits.SetValue(object, `{"`, at.Names[0], `":`, limit, `}`)
			return edits.Apply(dst)
		}
		in = object
	}
	for _, name := range at.Names {
		if v := in.Get(name); v.Exists() {
			edits.SetValue(v, limit)
		}
	}
	if edits.Len() == 0 {
		edits.AddMember(in, at.Names[0], limit)
	}
	return edits.Apply(dst)
}

package estimate

import (
	"cmp"
	"strconv"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// unknownMaxTokens is the token limit of a response under a budget if neither the client nor the model sets one.
const unknownMaxTokens = 32 << 10

// MaxTokens returns the token limit of each choice of a request under a budget: the client's, otherwise the one to send
// to the provider. maxTokens and defaultMaxTokens are the model's, 0 if unset. The result is 0 if the response has no
// text.
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
	// The default does not include the thinking that the client has asked for.
	limit := defaultMaxTokens + f.Thinking.BudgetTokens
	if maxTokens > 0 {
		limit = min(limit, maxTokens)
	}
	return limit
}

// asksForNone reports whether a request limits its response to 0 tokens.
func asksForNone(r clientapi.Request, at clientapi.LimitMembers) bool {
	doc, _ := r.Document()
	in := doc.Root()
	if at.In != nil {
		in = anyMember(in, at.In)
	}
	n, ok := anyMember(in, at.Names).Int()
	return ok && n == 0
}

// anyMember returns the value of the first of names that the object has.
func anyMember(object jsondoc.Value, names []string) (v jsondoc.Value) {
	for i := 0; i < len(names) && !v.Exists(); i++ {
		v = object.Get(names[i])
	}
	return v
}

// AppendWithLimit appends a document with a token limit, which replaces members that set none, such as null.
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

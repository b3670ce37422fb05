package openai

import (
	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

// calls are the forms of requests without a conversation, with their standard paths.
var calls = [...]struct {
	form abi.Forms
	path string
}{
	{abi.FormCompletions, "/completions"},
	{abi.FormEmbeddings, "/embeddings"},
	{abi.FormModerations, "/moderations"},
	{abi.FormRerank, "/rerank"},
}

// passCall sends a request in one of these forms with only the model changed and the members in the options rename,
// drop and refuse edited. done is false for a request in another form.
func passCall(r *provider.Request, o *options) (done bool, err error) {
	for i := range calls {
		if calls[i].form != r.Form {
			continue
		}
		if o.refuse.Exists() {
			if err := rejectMembers(r, o.refuse); err != nil {
				return true, err
			}
		}
		r.SetPath(o.expandPath(o.callPaths[i], calls[i].path, r.Target))
		framing := abi.FramingJSON
		if r.Stream {
			framing = abi.FramingSSE
		}
		r.Expect(framing, abi.DialectOpenAI, nil)
		r.SetText("/model", r.Target)
		editStream(r, o)
		renameMembers(r, o.rename)
		dropMembers(r, o.drop)
		return true, nil
	}
	return false, nil
}

// modelKinds maps parts of model names to the kinds of requests that these models serve. The list does not report kinds
// for other models.
var modelKinds = [...]struct {
	part  string
	kinds []string
}{
	{"moderation", []string{"moderations"}},
	{"rerank", []string{"rerank"}},
	{"embed", []string{"embeddings"}},
	{"gpt-3.5-turbo-instruct", []string{"completions"}},
	{"babbage-002", []string{"completions"}},
	{"davinci-002", []string{"completions"}},
	{"codestral", []string{"chat", "completions"}},
}

// kindsByName returns the kinds of requests that a model serves, judging by its name, or nil if the name does not tell.
func kindsByName(id []byte) []string {
	for i := range modelKinds {
		if translate.ContainsFold(id, modelKinds[i].part) {
			return modelKinds[i].kinds
		}
	}
	return nil
}

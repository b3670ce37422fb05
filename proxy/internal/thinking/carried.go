package thinking

import (
	"bytes"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// Google's OpenAI-compatible endpoints sign tool calls, or the message, in extra_content. Such a signature is carried as
// a reasoning.encrypted entry whose data is a JSON object with the provider and its extra_content. Providers' own data
// is base64, which never starts with a brace. Restore turns the entry back into extra_content.

// carriedHead is the beginning of a carried entry's data.
var carriedHead = []byte(`{"provider":"`)

// carriedMember is the same within the JSON of the entry.
var carriedMember = []byte(`"data":"{\"provider\":\"`)

// appendCarried appends the data of an entry that carries extra_content, as the inside of a JSON string.
func appendCarried(dst []byte, provider string, extra []byte) []byte {
	data := jsondoc.AppendEscaped(bytes.Clone(carriedHead), []byte(provider))
	data = append(append(append(data, `","extra_content":`...), extra...), '}')
	return jsondoc.AppendEscaped(dst, data)
}

// isSignedExtra reports whether an extra_content has a signature.
func isSignedExtra(value []byte, doc *jsondoc.Doc) bool {
	return doc.Parse(value, jsondoc.Limits{}) == nil && len(doc.Root().Get("google").Get("thought_signature").Inside()) > 0
}

// restoreExtras records the edits that put the extra_content of carried entries where the provider had it, and returns
// the other entries. entries is a JSON array without its brackets. What an unusable provider has sent is left out.
func (r *restoration) restoreExtras(message, calls jsondoc.Value, entries []byte) (rest []byte) {
	var list, data jsondoc.Doc
	if list.Parse(append(append([]byte{'['}, entries...), ']'), jsondoc.Limits{}) != nil {
		return entries // cannot happen: they come from a document, a token or the memory
	}
	for e := list.Root().First(); e.Exists(); e = e.Next() {
		text := e.Get("data").AppendText(nil)
		if !bytes.HasPrefix(text, carriedHead) || data.Parse(text, jsondoc.Limits{}) != nil {
			if len(rest) > 0 {
				rest = append(rest, ',')
			}
			rest = append(rest, e.Raw()...)
			continue
		}
		target := message
		if id := e.Get("id"); id.Exists() {
			for target = calls.First(); target.Exists() && !target.Get("id").SameText(id); {
				target = target.Next()
			}
		}
		extra := data.Root().Get(extraContent)
		if target.Exists() && !target.Get(extraContent).Exists() && extra.Exists() && r.usable(string(data.Root().Get("provider").AppendText(nil))) {
			at := target.Offset() + 1
			r.edits = append(r.edits, edit{from: at, to: at, insert: append(append([]byte(`"`+extraContent+`":`), extra.Raw()...), ',')})
		}
	}
	return rest
}

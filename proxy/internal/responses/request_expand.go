package responses

import (
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// Store holds earlier responses and their items. Clients only find their own responses. A Store is safe for concurrent
// use.
type Store interface {
	// AppendConversation appends the items of a stored response's request, with references resolved, and the items of
	// its output: JSON objects separated by commas. It returns false if the response is not stored.
	AppendConversation(dst []byte, client, response string) ([]byte, bool)

	// AppendItem appends an output item of a stored response, a JSON object. It returns false if the item is not
	// stored.
	AppendItem(dst []byte, client, item string) ([]byte, bool)
}

// Expand implements clientapi.StatefulRequest. It resolves previous_response_id and item_reference for AppendChat and
// Describe. If the store does not have what they refer to, Expand does nothing: a provider of this API may have it, so
// only AppendChat returns an error.
func (r *Request) Expand(client string) *apierror.Error {
	r.client = client
	if r.store == nil || !r.m.previous.Exists() && !r.ItemReference().Exists() {
		return nil
	}
	body, before, ok := r.appendExpanded(nil, client)
	if !ok {
		return nil
	}
	if r.full == nil {
		r.full = NewRequest(r.sealer, nil)
	}
	if e := r.full.Parse(body, r.limits); e != nil {
		if e.Param = r.clientPath(before, e.Param); e.Param == "" {
			e.Param = "input"
		}
		return e
	}
	r.expanded, r.previousItems = true, before
	own, all := &r.facts, &r.full.facts
	own.Messages, own.Tools, own.Images, own.TextBytes, own.Flags = all.Messages, all.Tools, all.Images, all.TextBytes, own.Flags|all.Flags
	return nil
}

// Expanded implements clientapi.StatefulRequest.
func (r *Request) Expanded() *jsondoc.Doc {
	if r.expanded {
		return &r.full.doc
	}
	return &r.doc
}

// appendExpanded appends the request with references resolved. It returns how many of the items come from the previous
// response, and false if the store does not have everything that the request refers to.
func (r *Request) appendExpanded(dst []byte, client string) (body []byte, before int, ok bool) {
	dst = append(dst, '{')
	wrote := false
	for v := r.doc.Root().First(); v.Exists(); v = v.Next() {
		switch name := v.Name(); {
		case name.Is("previous_response_id"), name.Is("input"):
		default:
			if wrote {
				dst = append(dst, ',')
			}
			wrote = true
			dst = append(append(append(dst, name.Raw()...), ':'), v.Raw()...)
		}
	}
	dst = append(dst, `,"input":[`...)
	begin := len(dst)
	if r.m.previous.Exists() {
		if dst, ok = r.store.AppendConversation(dst, client, r.m.previous.Text()); !ok {
			return dst, 0, false
		}
		before = countItems(dst[begin:])
	}
	if in := r.m.input; in.Kind() == jsondoc.String {
		dst = append(separate(dst, begin), `{"type":"message","role":"user","content":`...)
		dst = append(append(dst, in.Raw()...), '}')
	}
	for i := range r.items {
		dst = separate(dst, begin)
		if it := &r.items[i]; it.kind != itemReference {
			dst = append(dst, it.v.Raw()...)
		} else if dst, ok = r.store.AppendItem(dst, client, it.v.Get("id").Text()); !ok {
			return dst, 0, false
		}
	}
	return append(dst, "]}"...), before, true
}

// separate appends a comma before an element of a list that starts at begin, unless it is the first.
func separate(dst []byte, begin int) []byte {
	if len(dst) > begin {
		dst = append(dst, ',')
	}
	return dst
}

// countItems returns the number of elements of a JSON array without its brackets.
func countItems(list []byte) int {
	var d jsondoc.Doc
	if d.Parse(append(append([]byte{'['}, list...), ']'), jsondoc.Limits{}) != nil {
		return 0
	}
	return d.Root().Len()
}

// notFound returns the error for a reference that the store could not resolve, in the words of OpenAI. It returns nil
// if the request has no references. The provider of another target may have the response.
func (r *Request) notFound() *apierror.Error {
	if v := r.m.previous; v.Exists() {
		e := apierror.Invalid("previous_response_not_found", "previous_response_id", "Previous response with id '%s' not found.", clientapi.Quotable(v.Text()))
		e.TryNext = true
		return e
	}
	if v := r.ItemReference(); v.Exists() {
		return clientapi.ItemNotFound(v.Get("id").Text())
	}
	return nil
}

// ItemReference implements clientapi.StatefulRequest.
func (r *Request) ItemReference() jsondoc.Value {
	for i := range r.items {
		if it := &r.items[i]; it.kind == itemReference {
			return it.v
		}
	}
	return jsondoc.Value{}
}

// StoredItems implements clientapi.StatefulRequest.
func (r *Request) StoredItems(f func(id jsondoc.Value) bool) {
	for i := range r.items {
		switch r.items[i].kind {
		case itemReasoning, itemHosted:
		default:
			continue
		}
		v := r.items[i].v
		content, stored := storedContent(v)
		if id := v.Get("id"); stored && len(content.Inside()) == 0 && !content.First().Exists() && len(id.Inside()) > 0 && !f(id) {
			return
		}
	}
}

// storedContent returns the content of an item that a request may repeat without it, because the provider has stored the
// item. stored is false for all other items: they are what a request says they are.
func storedContent(item jsondoc.Value) (content jsondoc.Value, stored bool) {
	switch typ := item.Get("type"); {
	case typ.Is("reasoning"):
		return item.Get("encrypted_content"), true
	case typ.Is("image_generation_call"):
		return item.Get("result"), true
	case typ.Is("file_search_call"):
		return item.Get("results"), true
	}
	return jsondoc.Value{}, false
}

// AppendInput appends the items of the request, with references resolved, in the format of a Store: JSON objects
// separated by commas.
func (r *Request) AppendInput(dst []byte) []byte {
	if r.expanded {
		return r.full.AppendInput(dst)
	}
	begin := len(dst)
	if in := r.m.input; in.Kind() == jsondoc.String {
		dst = append(append(append(dst, `{"type":"message","role":"user","content":`...), in.Raw()...), '}')
	}
	for i := range r.items {
		dst = r.items[i].v.AppendCompact(separate(dst, begin))
	}
	return dst
}

// Client returns the client that Expand was called for.
func (r *Request) Client() string { return r.client }

// Stores reports whether the response should be stored.
func (r *Request) Stores() bool { return r.m.store.Kind() != jsondoc.False }

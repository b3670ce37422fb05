package exchange

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sluice-gateway/sluice/proxy/internal/admission"
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/buffers"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
)

// Documents holds the client's request for the attempts that read it.
//
// The goroutine that reads the documents holds busy: that of an attempt that builds the provider's request, or the
// request's. The last user frees the memory, because one provider may still be reading the request when another has
// already responded.
type Documents struct {
	Busy     sync.Mutex
	Users    atomic.Int32 // the request itself, and each attempt that runs on its own goroutine
	Request  clientapi.Request
	ChatForm chatForm
	Body     []byte // from the server's buffers
	Counted  int64  // bytes of bodies that limiter has counted

	Limiter *admission.Limiter // bounds the memory of bodies and of the response
}

// chatForm is a client's request translated into a chat completions request, for providers that do not support the
// client's API.
type chatForm struct {
	request  clientapi.RewritableRequest
	body     []byte              // document of request; from the server's buffers
	Warnings []clientapi.Warning // members of the client's request that are left out or changed
	err      *apierror.Error     // why the request cannot be translated
}

// Release returns the request to the chat API's pool and the body to b.
func (f *chatForm) Release(chat *API, b *buffers.Pool) {
	if f.request != nil {
		chat.PutRequest(f.request)
	}
	b.Put(f.body)
	*f = chatForm{}
}

// buildChat translates the client's request into a chat completions request. It is called once per request.
func (d *Documents) buildChat(s *Services, x *Exchange) *apierror.Error {
	f := &d.ChatForm
	source, own := d.Request.Document()
	body, warnings, e := d.Request.AppendChat(s.Buffers.Get(len(own)))
	f.body = body
	if e != nil {
		return e
	}
	if e := d.Limiter.Grow(&d.Counted, len(d.Body)+len(body)); e != nil {
		return e
	}
	r := s.APIs[clientapi.Chat].GetRequest().(clientapi.RewritableRequest)
	f.request = r
	if e := r.Parse(body, clientapi.Limits{Source: source}.Lowered()); e != nil {
		e = clientapi.OriginError(d.Request, e)
		e.TryNext = true // a provider that supports the client's API may accept the request
		return e
	}
	if x.remembersThinking(true) {
		f.body = d.RestoreThinking(s, x, r, body, len(d.Body))
	}
	f.Warnings = warnings
	for _, w := range r.Describe().Warnings {
		f.Warnings = clientapi.AddWarning(f.Warnings, w.Kind, cmp.Or(d.Request.Origin(w.Member), w.Member))
	}
	return nil
}

// RestoreThinking restores in a chat completions request the signed reasoning of earlier responses that the client has
// not sent back. body is the buffer that holds the request's document, and held is how many other bytes are counted for
// it. It returns the buffer that holds the document afterwards. If memory is short, the request stays as it is, because
// its provider may not need the reasoning.
func (d *Documents) RestoreThinking(s *Services, x *Exchange, r clientapi.RewritableRequest, body []byte, held int) []byte {
	facts := r.Describe()
	if !facts.Flags.Has(clientapi.FlagToolHistory) || facts.FunctionCalls {
		return body // a function_call has no id to find the reasoning by
	}
	usable := func(provider string) bool {
		return slices.ContainsFunc(x.Policy.Targets, func(t routing.Target) bool { return t.Provider == provider })
	}
	limit := int(s.Admission.Limits().MaxBody)
	doc, old := r.Document()
	restored, changed := s.Thinking.Restore(s.Buffers.Get(len(old)), doc, x.Key.Name(), usable, limit)
	if !changed || d.Limiter.Grow(&d.Counted, held+len(restored)) != nil || r.Replace(restored, clientapi.Limits{}.Lowered()) != nil {
		s.Buffers.Put(restored)
		return body
	}
	s.Buffers.Put(body)
	return restored
}

// originError is clientapi.OriginError for an error about the translated request.
func (d *Documents) originError(e *apierror.Error) *apierror.Error {
	d.Busy.Lock()
	defer d.Busy.Unlock()
	return clientapi.OriginError(d.Request, e)
}

// Release gives up one use of the documents, and frees them with the last one.
func (d *Documents) Release(s *Services, a *API) {
	if d.Users.Add(-1) > 0 {
		return
	}
	if d.Request != nil {
		d.ChatForm.Release(&s.APIs[clientapi.Chat], &s.Buffers)
		a.PutRequest(d.Request)
		d.Request = nil
	}
	s.Buffers.Put(d.Body)
	d.Body = nil
	d.Limiter.Shrink(&d.Counted)
}

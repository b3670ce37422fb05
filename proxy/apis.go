package proxy

import (
	"cmp"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/admission"
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/buffers"
	"github.com/sluice-gateway/sluice/proxy/internal/calls"
	"github.com/sluice-gateway/sluice/proxy/internal/chunked"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/filter"
	"github.com/sluice-gateway/sluice/proxy/internal/framing"
	"github.com/sluice-gateway/sluice/proxy/internal/framing/decoders"
	"github.com/sluice-gateway/sluice/proxy/internal/gemini"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/messages"
	"github.com/sluice-gateway/sluice/proxy/internal/openai"
	"github.com/sluice-gateway/sluice/proxy/internal/openai/native"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/recording"
	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/proxy/internal/responses"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
	"github.com/sluice-gateway/sluice/proxy/internal/thinking"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// clientAPI is an API that clients can use, with the pools of objects that serve its requests.
type clientAPI struct {
	*clientapi.API
	id             clientapi.ID
	form           abi.Forms    // form of its requests for plugins
	dialect        abi.Dialect  // dialect of a provider's response in this API
	kind           config.Kinds // kind of models that serve its requests; init sets chat if unset
	idHeader       string       // response header for the request's ID besides x-request-id; "" for none
	heartbeatChunk []byte       // API.Heartbeat as an HTTP chunk

	// Objects are reset before they are put into a pool.
	requests   sync.Pool // clientapi.Request
	workspaces sync.Pool // *workspace
}

// clientAPIs holds all APIs, indexed by their IDs.
type clientAPIs [clientapi.NumAPIs]clientAPI

func (a *clientAPIs) init(o responses.Options) {
	o.Failure = native.Failure
	a[clientapi.Chat].API, a[clientapi.Chat].form, a[clientapi.Chat].dialect = openai.API(), abi.FormChat, abi.DialectOpenAI
	a[clientapi.Messages].API, a[clientapi.Messages].form, a[clientapi.Messages].dialect = messages.API(o.Sealer), abi.FormMessages, abi.DialectMessages
	a[clientapi.Messages].idHeader = "request-id"
	a[clientapi.Responses].API = responses.API(o)
	a[clientapi.Responses].form, a[clientapi.Responses].dialect = abi.FormResponses, abi.DialectResponses
	a[clientapi.Embeddings] = clientAPI{API: calls.Embeddings(native.Failure), form: abi.FormEmbeddings, kind: config.KindEmbeddings, dialect: abi.DialectOpenAI}
	a[clientapi.Rerank] = clientAPI{API: calls.Rerank(native.Failure), form: abi.FormRerank, kind: config.KindRerank, dialect: abi.DialectOpenAI}
	a[clientapi.LegacyCompletions] = clientAPI{API: calls.Completions(native.Failure), form: abi.FormCompletions, kind: config.KindCompletions, dialect: abi.DialectOpenAI}
	a[clientapi.Moderations] = clientAPI{API: calls.Moderations(native.Failure), form: abi.FormModerations, kind: config.KindModerations, dialect: abi.DialectOpenAI}
	a[clientapi.Gemini].API, a[clientapi.Gemini].form, a[clientapi.Gemini].dialect = gemini.API(o.Sealer), abi.FormGemini, abi.DialectGemini
	for id, api := range map[clientapi.ID]*clientapi.API{
		clientapi.GeminiEmbed:      calls.GeminiEmbed(native.Failure, a[clientapi.Gemini].API),
		clientapi.GeminiEmbedBatch: calls.GeminiEmbedBatch(native.Failure, a[clientapi.Gemini].API),
		clientapi.CohereEmbed:      calls.CohereEmbed(native.Failure),
		clientapi.CohereEmbedV1:    calls.CohereEmbedV1(native.Failure),
	} {
		a[id] = clientAPI{API: api, form: abi.FormEmbeddings, kind: config.KindEmbeddings, dialect: abi.DialectOpenAI}
	}
	for id := range a {
		if a[id].kind == 0 {
			a[id].kind = config.KindChat
		}
		a[id].id, a[id].heartbeatChunk = clientapi.ID(id), chunked.Append(nil, a[id].Heartbeat)
	}
}

// byDialect returns the API in which a provider responds to a request in the API requested, or nil if the plugin
// translates the response. Several APIs share the dialect of OpenAI, so the requested API takes precedence.
func (a *clientAPIs) byDialect(d abi.Dialect, requested *clientAPI) *clientAPI {
	if d != abi.DialectTranslated && requested.dialect == d {
		return requested
	}
	for id := range a {
		if d != abi.DialectTranslated && a[id].dialect == d {
			return &a[id]
		}
	}
	return nil
}

// statusOf returns the HTTP status of an error response.
func (a *clientAPI) statusOf(e *apierror.Error) int {
	if a.Status == nil {
		return e.Status
	}
	return a.Status(e)
}

func (a *clientAPI) getRequest() clientapi.Request {
	if r, ok := a.requests.Get().(clientapi.Request); ok {
		return r
	}
	return a.NewRequest()
}

func (a *clientAPI) putRequest(r clientapi.Request) {
	r.Reset()
	a.requests.Put(r)
}

// workspace holds the reusable objects of an attempt. Its API pools it.
type workspace struct {
	*scratch
	renderer     clientapi.Renderer
	writer       *response.Writer
	recorder     *thinking.Recorder // writes to renderer
	filtered     *filter.Renderer   // writes to recorder
	translation  plugin.Attempt
	decoders     decoders.Set
	decoder      framing.Decoder                     // one of decoders, once the framing is known
	readers      [clientapi.NumAPIs]clientapi.Reader // nil until a provider speaks that API
	batch        response.Batch
	out          upstream.Request
	headerSource *upstream.Response // the response whose headers the plugin may read

	// Method values, bound once to avoid allocations.
	alias  func(name []byte) []byte
	header func(name []byte) []byte
}

// scratch holds reusable memory of a completion, whichever of its attempts responds.
type scratch struct {
	chain        filter.Chain      // the filters that apply to the request
	triedBudgets []*routing.Budget // retry budgets of providers to which a connection was requested
}

func (a *clientAPI) getWorkspace() *workspace {
	if w, ok := a.workspaces.Get().(*workspace); ok {
		return w
	}
	return newWorkspace(a.NewRenderer(), a.id == clientapi.Chat, a.AppendCallID)
}

// newWorkspace returns a workspace whose responses are rendered by r. chat and callID are as in thinking.NewRecorder.
func newWorkspace(r clientapi.Renderer, chat bool, callID func(dst, id []byte) []byte) *workspace {
	w := &workspace{renderer: r, scratch: new(scratch)}
	w.recorder = thinking.NewRecorder(w.renderer, chat, callID)
	w.filtered = filter.NewRenderer(w.recorder)
	w.writer = response.NewWriter(w.filtered)
	w.alias = w.translation.Alias
	w.header = func(name []byte) []byte { return w.headerSource.Header(string(name)) }
	return w
}

// putWorkspace clears w and puts it back into the pool.
func (a *clientAPI) putWorkspace(w *workspace) {
	w.writer.Reset(response.Options{})
	w.chain.Reset()
	w.translation.Reset()
	w.batch.Reset()
	for _, r := range w.readers {
		if r != nil {
			r.Reset(false)
		}
	}
	w.decoders.Reset()
	w.decoder = nil
	w.headerSource = nil
	a.workspaces.Put(w)
}

// routed is the routing decision for a request and its input. It outlives attempts, and is reused by other completions.
type routed struct {
	request  routing.Request  // valid until the documents are released
	decision routing.Decision // the order of the targets and the outcome of each
}

// routings is a pool of routing decisions.
type routings struct{ pool sync.Pool } // of *routed

// get returns a routed, which the caller gives back with put.
func (p *routings) get() *routed {
	if r, ok := p.pool.Get().(*routed); ok {
		return r
	}
	return new(routed)
}

func (p *routings) put(r *routed) {
	r.request = routing.Request{}
	r.decision.Reset()
	p.pool.Put(r)
}

// getReader returns the workspace's reader for responses in an API.
func (w *workspace) getReader(a *clientAPI) clientapi.Reader {
	r := w.readers[a.id]
	if r == nil {
		r = a.NewReader()
		w.readers[a.id] = r
	}
	if chat, ok := r.(*openai.Reader); ok {
		chat.Options = w.translation.DialectOptions
	}
	return r
}

// chatForm is a client's request translated into a chat completions request, for providers that do not support the
// client's API.
type chatForm struct {
	request  clientapi.RewritableRequest
	body     []byte              // document of request; from the server's buffers
	warnings []clientapi.Warning // members of the client's request that are left out or changed
	err      *apierror.Error     // why the request cannot be translated
}

// release returns the request to the chat API's pool and the body to b.
func (f *chatForm) release(chat *clientAPI, b *buffers.Pool) {
	if f.request != nil {
		chat.putRequest(f.request)
	}
	b.Put(f.body)
	*f = chatForm{}
}

// services are what attempts use of the gateway.
type services struct {
	log       *slog.Logger
	now       func() time.Time
	panicked  func(request string, p *rescue.Error) // logs and counts a panic
	admission *admission.Controller
	apis      clientAPIs
	buffers   buffers.Pool
	thinking  *thinking.Memory
	recorder  *recording.Recorder // nil disables recording
}

// documents holds the client's request for the attempts that read it.
//
// The goroutine that reads the documents holds busy: that of an attempt that builds the provider's request, or the
// completion's. The last user frees the memory, because one provider may still be reading the request when another has
// already responded.
type documents struct {
	busy     sync.Mutex
	users    atomic.Int32 // the completion, and each attempt that runs on its own goroutine
	request  clientapi.Request
	chatForm chatForm
	body     []byte // from the server's buffers
	counted  int64  // bytes of bodies that limiter has counted

	limiter *admission.Limiter // bounds the memory of bodies and of the response
}

// buildChat translates the client's request into a chat completions request. It is called once per request.
func (d *documents) buildChat(s *services, x *exchange) *apierror.Error {
	f := &d.chatForm
	source, own := d.request.Document()
	body, warnings, e := d.request.AppendChat(s.buffers.Get(len(own)))
	f.body = body
	if e != nil {
		return e
	}
	if e := d.limiter.Grow(&d.counted, len(d.body)+len(body)); e != nil {
		return e
	}
	r := s.apis[clientapi.Chat].getRequest().(clientapi.RewritableRequest)
	f.request = r
	if e := r.Parse(body, clientapi.Limits{Source: source}.Lowered()); e != nil {
		e = clientapi.OriginError(d.request, e)
		e.TryNext = true // a provider that supports the client's API may accept the request
		return e
	}
	if x.remembersThinking(true) {
		f.body = d.restoreThinking(s, x, r, body, len(d.body))
	}
	f.warnings = warnings
	for _, w := range r.Describe().Warnings {
		f.warnings = clientapi.AddWarning(f.warnings, w.Kind, cmp.Or(d.request.Origin(w.Member), w.Member))
	}
	return nil
}

// restoreThinking restores in a chat completions request the signed reasoning of earlier responses that the client has
// not sent back. body is the buffer that holds the request's document, and held is how many other bytes are counted for
// it. It returns the buffer that holds the document afterwards. If memory is short, the request stays as it is, because
// its provider may not need the reasoning.
func (d *documents) restoreThinking(s *services, x *exchange, r clientapi.RewritableRequest, body []byte, held int) []byte {
	facts := r.Describe()
	if !facts.Flags.Has(clientapi.FlagToolHistory) || facts.FunctionCalls {
		return body // a function_call has no id to find the reasoning by
	}
	usable := func(provider string) bool {
		return slices.ContainsFunc(x.policy.Targets, func(t routing.Target) bool { return t.Provider == provider })
	}
	limit := int(s.admission.Limits().MaxBody)
	doc, old := r.Document()
	restored, changed := s.thinking.Restore(s.buffers.Get(len(old)), doc, x.key.Name(), usable, limit)
	if !changed || d.limiter.Grow(&d.counted, held+len(restored)) != nil || r.Replace(restored, clientapi.Limits{}.Lowered()) != nil {
		s.buffers.Put(restored)
		return body
	}
	s.buffers.Put(body)
	return restored
}

// originError is clientapi.OriginError for an error about the translated request.
func (d *documents) originError(e *apierror.Error) *apierror.Error {
	d.busy.Lock()
	defer d.busy.Unlock()
	return clientapi.OriginError(d.request, e)
}

// release gives up one use of the documents, and frees them with the last one.
func (d *documents) release(s *services, a *clientAPI) {
	if d.users.Add(-1) > 0 {
		return
	}
	if d.request != nil {
		d.chatForm.release(&s.apis[clientapi.Chat], &s.buffers)
		a.putRequest(d.request)
		d.request = nil
	}
	s.buffers.Put(d.body)
	d.body = nil
	d.limiter.Shrink(&d.counted)
}

// addKey adds the name of the client key to a filter's input, whose last member is the summary.
func addKey(input []byte, key string) []byte {
	input = append(input[:len(input)-len("}}")], `,"key":"`...)
	return append(jsondoc.AppendEscaped(input, []byte(key)), `"}}`...)
}

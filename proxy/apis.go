package proxy

import (
	"sync"

	"github.com/valyala/fasthttp"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/buffers"
	"github.com/sluice-gateway/sluice/proxy/internal/calls"
	"github.com/sluice-gateway/sluice/proxy/internal/chunked"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/endpoint"
	"github.com/sluice-gateway/sluice/proxy/internal/filter"
	"github.com/sluice-gateway/sluice/proxy/internal/framing"
	"github.com/sluice-gateway/sluice/proxy/internal/framing/decoders"
	"github.com/sluice-gateway/sluice/proxy/internal/gemini"
	"github.com/sluice-gateway/sluice/proxy/internal/messages"
	"github.com/sluice-gateway/sluice/proxy/internal/openai"
	"github.com/sluice-gateway/sluice/proxy/internal/openai/native"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/proxy/internal/responses"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
	"github.com/sluice-gateway/sluice/proxy/internal/thinking"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// clientAPI is an API that clients can use, with what its requests are served with.
type clientAPI struct {
	*clientapi.API
	id        clientapi.ID
	form      abi.Forms    // of requests
	dialect   abi.Dialect  // of responses that a provider writes in this API
	kind      config.Kinds // of requests; chat if unset
	idHeader  string       // has the request's ID besides x-request-id, "" for none
	heartbeat []byte       // Heartbeat as a chunk

	// What is put back has been reset.
	requests sync.Pool // clientapi.Request
	works    sync.Pool // *work
}

// clientAPIs are all APIs, by their numbers.
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
	for id := range a {
		if a[id].kind == 0 {
			a[id].kind = config.KindChat
		}
		a[id].id, a[id].heartbeat = clientapi.ID(id), chunked.Append(nil, a[id].Heartbeat)
	}
}

// ofDialect returns the API in which a provider responds to a request of one; nil if the plugin translates the response. The
// dialect of OpenAI is that of each of its APIs besides Responses.
func (a *clientAPIs) ofDialect(d abi.Dialect, asked *clientAPI) *clientAPI {
	if d != abi.DialectTranslated && asked.dialect == d {
		return asked
	}
	for id := range a {
		if d != abi.DialectTranslated && a[id].dialect == d {
			return &a[id]
		}
	}
	return nil
}

// ofHead returns the API of a request of which nothing but its head is known.
func (a *clientAPIs) ofHead(h *fasthttp.RequestHeader) *clientAPI { return &a[endpoint.GuessAPI(h)] }

// status is the status of an error response.
func (a *clientAPI) status(e *apierror.Error) int {
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

// work is what attempts are made with. Its memory outlives a completion: the pool of its API keeps it for another one.
type work struct {
	*scratch
	renderer     clientapi.Renderer
	writer       *response.Writer
	recorder     *thinking.Recorder // writes for filtered
	filtered     *filter.Renderer   // writes for the writer
	translation  plugin.Attempt
	decoders     decoders.Set
	decoder      framing.Decoder                     // of the response's framing, once framed
	readers      [clientapi.NumAPIs]clientapi.Reader // nil until a provider speaks that API
	batch        response.Batch
	out          upstream.Request
	headerSource *upstream.Response // whose headers the plugin may read

	// Methods of what is above, bound once.
	alias  func(name []byte) []byte
	header func(name []byte) []byte
}

// scratch is the memory of what a completion needs whichever of its attempts responds.
type scratch struct {
	chain filter.Chain      // the filters that apply to the request
	tried []*routing.Budget // of the providers that have been sent the request
}

func (a *clientAPI) getWork() *work {
	if w, ok := a.works.Get().(*work); ok {
		return w
	}
	return newWork(a.NewRenderer())
}

// newWork returns what attempts are made with whose responses a renderer spells.
func newWork(r clientapi.Renderer) *work {
	w := &work{renderer: r, scratch: new(scratch)}
	w.recorder = thinking.NewRecorder(w.renderer)
	w.filtered = filter.NewRenderer(w.recorder)
	w.writer = response.NewWriter(w.filtered)
	w.alias = w.translation.Alias
	w.header = func(name []byte) []byte { return w.headerSource.Header(string(name)) }
	return w
}

// putWork drops what w holds of a completion, and keeps it for another one.
func (a *clientAPI) putWork(w *work) {
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
	a.works.Put(w)
}

// routed is the decision where a request goes, and what it is based on. It outlives attempts, and its memory the completion.
type routed struct {
	request  routing.Request  // until the documents are released
	decision routing.Decision // in which order the targets are tried, and what came of it
}

// routings keeps the memory of decisions.
type routings struct{ pool sync.Pool } // of *routed

// get returns memory for a decision, until put.
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

// reader returns the reader of responses of an API.
func (w *work) reader(a *clientAPI) clientapi.Reader {
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

// lowered is a client's request as a chat completions request, for providers that do not speak the client's API.
type lowered struct {
	request  *openai.Request
	body     []byte              // that request holds; from the server's buffers
	warnings []clientapi.Warning // what of the client's request it leaves out or changes
	err      *apierror.Error     // the client's request cannot be one
}

// release gives the lowered request back, to the chat API and to b.
func (l *lowered) release(chat *clientAPI, b *buffers.Pool) {
	if l.request != nil {
		chat.putRequest(l.request)
	}
	b.Put(l.body)
	*l = lowered{}
}

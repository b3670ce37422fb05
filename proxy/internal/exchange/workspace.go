package exchange

import (
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/filter"
	"github.com/sluice-gateway/sluice/proxy/internal/framing"
	"github.com/sluice-gateway/sluice/proxy/internal/framing/decoders"
	"github.com/sluice-gateway/sluice/proxy/internal/openai"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
	"github.com/sluice-gateway/sluice/proxy/internal/thinking"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
)

// Workspace holds the reusable objects of an attempt. Its API pools it.
type Workspace struct {
	*Scratch
	Renderer     clientapi.Renderer
	Writer       *response.Writer
	recorder     *thinking.Recorder // writes to renderer
	filtered     *filter.Renderer   // writes to recorder
	Translation  plugin.Attempt
	decoders     decoders.Set
	decoder      framing.Decoder                     // one of decoders, once the framing is known
	readers      [clientapi.NumAPIs]clientapi.Reader // nil until a provider speaks that API
	Batch        response.Batch
	out          upstream.Request
	headerSource *upstream.Response // the response whose headers the plugin may read

	// Method values, bound once to avoid allocations.
	Alias  func(name []byte) []byte
	header func(name []byte) []byte
}

// Scratch holds reusable memory of a request, whichever of its attempts responds.
type Scratch struct {
	Chain        filter.Chain      // the filters that apply to the request
	TriedBudgets []*routing.Budget // retry budgets of providers to which a connection was requested
}

// GetWorkspace returns a workspace from the pool. PutWorkspace gives it back.
func (a *API) GetWorkspace() *Workspace {
	if w, ok := a.workspaces.Get().(*Workspace); ok {
		return w
	}
	return NewWorkspace(a.NewRenderer(), a.ID == clientapi.Chat, a.AppendCallID)
}

// NewWorkspace returns a workspace whose responses are rendered by r. chat and callID are as in thinking.NewRecorder.
func NewWorkspace(r clientapi.Renderer, chat bool, callID func(dst, id []byte) []byte) *Workspace {
	w := &Workspace{Renderer: r, Scratch: new(Scratch)}
	w.recorder = thinking.NewRecorder(w.Renderer, chat, callID)
	w.filtered = filter.NewRenderer(w.recorder)
	w.Writer = response.NewWriter(w.filtered)
	w.Alias = w.Translation.Alias
	w.header = func(name []byte) []byte { return w.headerSource.Header(string(name)) }
	return w
}

// Observe makes a tap observe the response of the attempt that follows, as filters leave it. It belongs to the workspace
// until the next call or PutWorkspace.
func (w *Workspace) Observe(t response.Tap) {
	t.SetNext(w.recorder)
	w.filtered.Renderer = t
}

// Observer returns what Observe was called with last.
func (w *Workspace) Observer() response.Renderer { return w.filtered.Renderer }

// PutWorkspace clears w and puts it back into the pool.
func (a *API) PutWorkspace(w *Workspace) {
	w.filtered.Renderer = w.recorder
	w.Writer.Reset(response.Options{})
	w.Chain.Reset()
	w.Translation.Reset()
	w.Batch.Reset()
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

// getReader returns the workspace's reader for responses in an API.
func (w *Workspace) getReader(a *API) clientapi.Reader {
	r := w.readers[a.ID]
	if r == nil {
		r = a.NewReader()
		w.readers[a.ID] = r
	}
	if chat, ok := r.(*openai.Reader); ok {
		chat.Options = w.Translation.DialectOptions
	}
	return r
}

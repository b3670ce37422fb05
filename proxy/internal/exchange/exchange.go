// Package exchange has one request to a model as it is passed on to providers: what the client has asked for (Exchange,
// Documents), and one try to have it served by one target (Attempt). A request that is served, a hedge, a copy for a
// shadow target and an explanation differ in who owns these and waits for them, which is up to package proxy.
//
// It owns the client APIs with their pools (API), the document that a plugin receives, the provider's response until it
// has been written into a response.Writer, what an attempt has used and what its outcome means for its target. It decides
// neither which target is tried, nor what the client is told, and writes to no client: see Waiter.
//
// Concurrency: an Exchange does not change once its request is routed. Documents are locked by whoever reads them. An
// Attempt belongs to one goroutine at a time. APIs and Services are safe for concurrent use.
package exchange

import (
	"log/slog"
	"slices"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/access"
	"github.com/sluice-gateway/sluice/proxy/internal/admission"
	"github.com/sluice-gateway/sluice/proxy/internal/buffers"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/endpoint"
	"github.com/sluice-gateway/sluice/proxy/internal/ownership"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/recording"
	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/catalog"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/probe"
	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
	"github.com/sluice-gateway/sluice/proxy/internal/thinking"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
)

// Configuration is the loaded configuration that an exchange is served with. It stays open while it is referenced.
type Configuration interface {
	// Acquire takes a reference, which Release gives back. It returns false if the last one has been given back.
	Acquire() bool
	Release()

	// NewFileRedactor returns a function that removes secrets from text, also the keys presented.
	NewFileRedactor(presented []string) func([]byte) []byte
}

// Exchange is what a client has asked for, except for the documents, which are released earlier. It does not change once
// the request is routed.
type Exchange struct {
	API           *API
	Configuration Configuration
	Stream        bool
	HTTP11        bool
	Explain       bool        // the response describes the routing decision in x-gateway-route
	Hops          int         // gateways that the request has passed through before this one
	Random        uint64      // decides whatever is decided at random
	Key           *access.Key // nil until the client is known
	User          access.User // the person behind the key; nobody if the key does not tell them apart
	Model         *catalog.Model
	Policy        *routing.Policy     // the model's
	Budget        routing.BudgetShare // for a policy that reads it
	Credential    uint64              // hash that selects one of a provider's credentials
	Betas         []string            // beta features that a client of the Messages API requests
	Tags          []string            // set by filters
	Presented     []string            // keys in the request's head, to be redacted from recordings
	RequestID     string
	Created       int64                  // Unix time of the request
	Span          *telemetry.SpanContext // of the request's record; nil without traces
	References    ownership.References

	Traceparent string // the client's trace context, if it is continued; else ""
	Tracestate  string
}

// remembersThinking reports whether signed reasoning is remembered for the client. The client sends back what it has
// received of it, but some clients of Messages drop empty blocks, and those of Gemini rarely receive it.
func (x *Exchange) remembersThinking(translated bool) bool {
	return x.API.ID == clientapi.Chat || translated
}

// appendTrace appends the headers of the trace context of an attempt, whose own span is the provider's parent. Without
// traces of the gateway's own, it is the client's context.
func (x *Exchange) appendTrace(headers []upstream.Header, number int) []upstream.Header {
	parent := x.Traceparent
	if x.Span != nil && x.Span.Valid() {
		parent = string(x.Span.AppendTraceparent(nil, number))
	}
	for _, h := range [...]upstream.Header{{Name: endpoint.TraceHeader, Value: parent}, {Name: endpoint.TraceState, Value: x.Tracestate}} {
		if h.Value != "" && !slices.ContainsFunc(headers, func(o upstream.Header) bool { return o.Name == h.Name }) {
			headers = append(headers, h)
		}
	}
	return headers
}

// Services are what attempts use of the gateway.
type Services struct {
	Log       *slog.Logger
	Now       func() time.Time
	Panicked  func(request string, p *rescue.Error) // logs and counts a panic
	Admission *admission.Controller
	APIs      APIs
	Buffers   buffers.Pool
	Thinking  *thinking.Memory
	Recorder  *recording.Recorder // nil disables recording
}

// Provider holds what is needed to send requests to one configured provider.
type Provider struct {
	Name    string
	ID      uint32 // ownership.ProviderID
	Binding *plugin.Binding
	Client  *upstream.Client // nil if the plugin responds by itself
	Probe   *probe.Prober    // nil if the provider is not measured

	// Redact replaces credentials in data from the provider before anything else reads it.
	Redact func([]byte) []byte

	Heartbeat    time.Duration // silence after which a heartbeat is sent on a stream; 0 disables heartbeats
	Total        time.Duration // time for a whole attempt
	EventTimeout time.Duration // maximum time between two whole events of a stream; 0 means no limit
	MaxEvent     int           // maximum size of one event of a stream, in bytes
	Pace         time.Duration // pause between the events of a plugin's own response; 0 for none

	Trace         bool // requests carry their trace context
	SharedObjects bool // requests may refer to any object of the provider's account
}

// PluginUse describes the provider's plugin for the record of a request.
func (p *Provider) PluginUse(fuel int64) telemetry.PluginUse {
	use := p.Binding.Plugin()
	return telemetry.PluginUse{Name: use.Name(), Digest: use.Digest(), Fuel: fuel}
}

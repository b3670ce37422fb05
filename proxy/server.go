// Package proxy is the gateway: it serves the chat completions, Messages, Responses and Gemini APIs over HTTP, and
// forwards requests to the configured providers through their plugins.
//
// It owns the HTTP surface and the path of a request, one file per step: http (endpoints and error responses), request
// (one completion, from admission to its parsed body), attempt (targets in order, one attempt at a time), stream
// (chunks to the client) and account (budgets, response headers, log and metrics). Other files hold the Server and its
// lifetime (server, reload, options), generations of the configuration (generation, build), and introspection (metrics,
// status, explain). A request may have more than one attempt at a time: a hedge that races the first attempt (hedge), and
// copies sent to shadow targets (shadow).
//
// It delegates parsing of request heads (internal/endpoint), admission (internal/admission), what was asked and one
// attempt at it (internal/exchange), the formats of client APIs (internal/openai, internal/messages, internal/responses,
// internal/gemini), framing of provider responses (internal/framing), client connections (internal/downstream), provider
// connections (internal/upstream) and plugins (internal/plugin).
//
// Concurrency: a Server is safe for concurrent use. A completion belongs to the goroutine that serves its connection,
// from the request's head to the last byte of the response. It has no second goroutine, timer or channel, except while
// a Watcher waits on its behalf, while a hedge races its first attempt, and while fasthttp hands over the connection of
// a stream.
package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
	"golang.org/x/time/rate"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/config/fleet"
	"github.com/sluice-gateway/sluice/proxy/internal/accounting"
	"github.com/sluice-gateway/sluice/proxy/internal/admin"
	"github.com/sluice-gateway/sluice/proxy/internal/admission"
	"github.com/sluice-gateway/sluice/proxy/internal/background"
	"github.com/sluice-gateway/sluice/proxy/internal/buffers"
	"github.com/sluice-gateway/sluice/proxy/internal/capacity"
	"github.com/sluice-gateway/sluice/proxy/internal/delivery"
	"github.com/sluice-gateway/sluice/proxy/internal/downstream"
	"github.com/sluice-gateway/sluice/proxy/internal/exchange"
	"github.com/sluice-gateway/sluice/proxy/internal/failure"
	"github.com/sluice-gateway/sluice/proxy/internal/identity"
	"github.com/sluice-gateway/sluice/proxy/internal/journal"
	"github.com/sluice-gateway/sluice/proxy/internal/ownership"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
	"github.com/sluice-gateway/sluice/proxy/internal/responses"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/canary"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/catalog"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/policies"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
	"github.com/sluice-gateway/sluice/proxy/internal/thinking"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream/configured"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream/credential"
)

// readBuffer is the size of fasthttp's read buffer. A request head must fit into it; a larger one gets a 431.
const readBuffer = 32 << 10

// Server is a gateway. Create it with New; Serve serves a listener until Shutdown or Close.
type Server struct {
	exchange.Services
	deliveries delivery.Services
	random     func() uint64
	version    string
	logDropped func() int64

	lifetime
	outlets
	generations
	lasting

	clients   *downstream.Conns
	http      fasthttp.Server
	trimmer   capacity.Trimmer
	plugins   *plugin.Host
	routings  routings
	node      func() fleet.Status // nil if no bundle is served
	account   telemetry.Log
	metrics   *telemetry.Metrics
	admin     *admin.Server
	excessive rate.Sometimes // logs counts of tokens that no request can have
	ratioLog  rate.Sometimes // of prompts with more tokens than their model's tokens_per_byte
}

// lasting is what survives reloads: state of models and providers, and what clients' later requests refer to.
type lasting struct {
	registry   routing.Registry
	canaries   *canary.Set
	books      *accounting.Books
	responses  *responses.Memory // nil if responses are not stored
	held       *responses.Memory // responses that WebSockets hold
	owners     *ownership.Store
	background *background.Set
}

// lifetime is what Serve, Shutdown and Close coordinate.
type lifetime struct {
	started          *config.Config // the configuration at the start, which listeners keep until a restart
	startedAt        time.Time
	serving          sync.WaitGroup  // listeners and connections
	refusals         chan struct{}   // semaphore of connections that are being refused with a response
	shadowContext    context.Context // parent of the contexts of requests to shadow targets
	cancelShadows    context.CancelCauseFunc
	shutdownTimedOut atomic.Bool // the shutdown deadline has passed
	shutdownOnce     sync.Once
	closeOnce        sync.Once

	mu        sync.Mutex
	listeners []*downstream.Listener
	stopping  bool // listeners are closed, and Serve accepts no new one
}

// New builds the gateway that a configuration describes. It loads and compiles the plugins in use, and reports
// everything that is wrong with them at once.
func New(ctx context.Context, o Options) (*Server, error) {
	metrics := telemetry.NewMetrics()
	o.Log = telemetry.Guarded(cmp.Or(o.Log, slog.New(slog.DiscardHandler)), metrics)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Uint64
	}
	cfg := o.Config
	s := &Server{
		Services: exchange.Services{Log: o.Log, Now: o.Now, Recorder: o.Recorder}, metrics: metrics, version: o.Version, logDropped: o.LogDropped, random: o.Random,
		node: o.Node, lifetime: lifetime{started: cfg, startedAt: o.Now(), refusals: make(chan struct{}, maxRefusals)},
		excessive: rate.Sometimes{Interval: time.Minute}, ratioLog: rate.Sometimes{Interval: time.Minute},
	}
	s.Panicked, s.deliveries = s.logPanic, delivery.Services{Now: o.Now, Metrics: s.metrics, TimedOut: &s.shutdownTimedOut}
	machine := capacity.Detect()
	if r := cfg.Responses; r.Memory > 0 {
		size := int(r.Memory)
		if r.Memory == config.DefaultResponsesMemory {
			size = machine.Share(size)
		}
		s.responses = responses.NewMemory(size, r.TTL, o.Now)
	}
	s.held, s.background = responses.NewMemory(machine.Share(responses.DefaultMaxSize), cfg.Responses.WebSocketAge, o.Now), newBackground(s, cfg)
	s.APIs.Init(responses.Options{Sealer: newSealer(cfg), Memory: s.responses, ShowReasoning: cfg.Responses.ShowReasoning, Now: o.Now})
	s.account = telemetry.Log{Logger: telemetry.Guarded(cmp.Or(o.AccessLog, o.Log), metrics), Now: o.Now, Metrics: s.metrics}
	if cfg.Admin.Listen != "" {
		s.account.Recent = telemetry.NewRecent(cfg.Admin.Requests)
	}
	limits := admission.WithCapacity(cfg.Server, machine)
	s.Admission = admission.New(limits, s.metrics, s.Log)
	s.shadowContext, s.cancelShadows = context.WithCancelCause(context.Background())
	s.Thinking = thinking.NewMemory(machine.Share(thinking.DefaultMaxSize), thinking.DefaultTTL, o.Now)
	tls, err := loadTLS(cfg.Server.TLS)
	if err != nil {
		return nil, &BuildError{err}
	}
	s.clients = downstream.New(downstream.Options{
		Limits: connLimits(limits), TLS: tls, Log: s.Log, HTTPSRequired: failure.HTTPSRequired, Panicked: s.logAnyPanic,
	})
	s.books, err = accounting.Open(cfg, accounting.Options{
		StateDir: o.StateDir, Offline: o.Offline, Redactor: func() *credential.Redactor { return configured.Redactor(cfg) }, Log: o.Log, Now: o.Now,
		Warned: func(e spend.Event) { alertBudget(s.alerts, e) },
	})
	if err != nil {
		return nil, &BuildError{err}
	}
	s.owners = s.books.NewOwners()
	canaryOptions := canary.Options{Now: o.Now, Log: o.Log}
	if o.StateDir != "" && !o.Offline {
		canaryOptions.Dir = func() (string, error) { return s.books.StateFolder("canary") }
	}
	s.canaries = canary.New(canaryOptions)
	issuers := identity.Options{Log: o.Log, Now: o.Now}
	if o.StateDir != "" && !o.Offline {
		issuers.Dir = func() (string, error) { return s.books.StateFolder("issuers") }
	}
	if s.plugins, err = plugin.New(o.plugins()); err != nil {
		s.books.Close()
		return nil, fmt.Errorf("plugin engine: %w", err)
	}
	s.admin = admin.New(admin.Options{
		Gateway: s, Metrics: s.metrics, Hosts: cfg.Admin.Hosts, Log: s.Log, Recent: s.account.Recent, Token: cfg.Admin.Token.Reveal(), MetricsToken: cfg.Admin.MetricsToken,
	})
	s.builder = builder{
		modules: o.sources(), plugins: s.plugins, policies: policies.Lasting{Registry: &s.registry, Canaries: s.canaries}, issuers: identity.New(issuers), books: s.books, open: &s.open, log: s.Log, now: s.Now,
		panicked: s.logAnyPanic,
	}
	g, err := s.builder.build(ctx, cfg, nil)
	if err != nil {
		defer s.books.Close()
		return nil, errors.Join(err, s.plugins.Close())
	}
	s.health.reloads.at = g.builtAt
	s.current.Store(g)
	s.canaries.Use(g.policies.Canaries())
	s.books.Use(cfg, g.accounts)
	if err := startMetrics(s, cfg, o.Offline); err != nil {
		s.Close()
		return nil, &BuildError{err}
	}
	s.initHTTP()
	s.loadOwners(g)
	if o.StateDir == "" && cfg.Store.URL == "" && g.storesAtProviders() {
		s.Log.Warn("no state folder and no [store] url: after a restart, clients cannot continue the responses and threads that providers store")
	}
	s.Log.Info("limits", "conns", limits.MaxConns, "requests", limits.MaxRequests, "body", limits.MaxBody, "body_memory", limits.MaxBodyMemory,
		"memory", machine.Memory, "memory_from", machine.From, "descriptors", machine.Descriptors)
	return s, nil
}

// UnsharedAccounts returns the names of the providers that receive requests in their own API, but reject references to
// files and other objects of their account, because shared_objects is off.
func (s *Server) UnsharedAccounts() []string {
	g := s.acquire()
	if g == nil {
		return nil
	}
	defer g.Release()
	return g.unsharedAccounts()
}

// UnservedKinds returns a warning for each kind of requests of a model that the plugin of a target, a canary or a shadow
// does not serve with the provider's options.
func (s *Server) UnservedKinds() (all config.Errors) {
	g := s.acquire()
	if g == nil {
		return nil
	}
	defer g.Release()
	for i := range g.config.Models {
		m := &g.config.Models[i]
		check := func(provider, key string) {
			p := g.providers[provider]
			for k := range s.APIs {
				api := &s.APIs[k]
				if p == nil || api.Kind == config.KindChat || api.Translate != nil || m.Kinds&api.Kind == 0 || p.Binding.Forms()&api.Form != 0 {
					continue
				}
				all = append(all, g.config.NewError(m.Pos, fmt.Sprintf("models[%d].%s", i, key), fmt.Sprintf(
					"the plugin %s of provider %s does not serve %s with these options", p.Binding.Plugin().Name(), provider, api.Kind.Names()[0])))
			}
		}
		for j := range m.Targets {
			check(m.Targets[j].Provider, fmt.Sprintf("targets[%d]", j))
		}
		for j := range m.Shadows {
			check(m.Shadows[j].Provider, fmt.Sprintf("shadow[%d]", j))
		}
		if m.Canary != nil {
			check(m.Canary.Provider, "canary")
		}
	}
	return all
}

// loadOwners loads the record of what clients have made if a provider of the generation stores such things.
func (s *Server) loadOwners(g *generation) {
	if g.storesAtProviders() {
		s.owners.Load()
	}
}

// initHTTP configures fasthttp.
func (s *Server) initHTTP() {
	// fasthttp keeps the buffers of the last bodies with an idle connection. This limit applies to the whole process.
	fasthttp.SetBodySizePoolLimit(buffers.MaxKept, buffers.MaxKept)
	s.http = fasthttp.Server{
		Handler:                      s.handle,
		ErrorHandler:                 s.handleReadError,
		HeaderReceived:               s.headReceived,
		ExpectHandler:                s.expectContinue,
		Logger:                       fasthttpLogger{s.Log},
		ConnState:                    trackConn,
		Concurrency:                  math.MaxInt32, // package downstream enforces max_conns
		ReadBufferSize:               readBuffer,
		LazyRequestTime:              true, // ctx.Time is not used
		StreamRequestBody:            true, // readBody reads the body, after it has reserved memory
		DisablePreParseMultipartForm: true,
		NoDefaultServerHeader:        true,
		NoDefaultContentType:         true,
		SecureErrorLogMessage:        true,
	}
}

// acquire takes a reference to the current generation. It returns nil after Close.
func (s *Server) acquire() *generation {
	for {
		g := s.current.Load()
		if g == nil || g.Acquire() {
			return g
		}
	}
}

// Models returns the models that GET /v1/models lists for a key that may use all of them.
func (s *Server) Models(ctx context.Context) []*catalog.Model {
	g := s.acquire()
	if g == nil {
		return nil
	}
	defer g.Release()
	return g.catalog.List(ctx)
}

// newJournalID returns an ID for a request in the journal, 0 if there is no journal.
func (s *Server) newJournalID() uint64 {
	if s.books.Journal() == nil {
		return 0
	}
	return journal.NewID()
}

// logPanic logs and counts a panic, once. request is the request's ID, or "" for a panic outside of a request.
func (s *Server) logPanic(request string, p *rescue.Error) {
	if p.First() {
		s.metrics.Panic()
		s.Log.Error("panic", "request", request, "type", p.Type, "stack", string(p.Stack))
	}
}

// logAnyPanic logs and counts a panic outside of a request.
func (s *Server) logAnyPanic(p *rescue.Error) { s.logPanic("", p) }

// logIfPanic logs and counts err if it is a recovered panic.
func (s *Server) logIfPanic(request string, err error) {
	if p, ok := errors.AsType[*rescue.Error](err); ok {
		s.logPanic(request, p)
	}
}

// errorFrameTimeout is how long open streams have to write their error frames after the shutdown deadline.
const errorFrameTimeout = 2 * time.Second

// maxRefusals is how many excess connections may be refused with a response at the same time. Further ones are closed
// at once.
const maxRefusals = 64

// Serve accepts connections from ln until Shutdown or Close, and closes ln. It then returns nil, also if either was
// called before Serve. If TLS is configured, the Server adds it to ln, which must not be a TLS listener itself.
func (s *Server) Serve(ln net.Listener) error {
	l := s.clients.Listen(ln)
	s.mu.Lock()
	if s.stopping {
		s.mu.Unlock()
		return l.Close()
	}
	s.listeners = append(s.listeners, l)
	s.serving.Add(1)
	s.mu.Unlock()
	defer s.serving.Done()
	s.health.setServing()
	for {
		c, full, err := l.AcceptConn()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			return errors.Join(err, l.Close())
		case !full:
			s.serving.Go(func() { s.serveConn(c) })
		default:
			s.metrics.Shed(telemetry.ShedConnections)
			select {
			case s.refusals <- struct{}{}:
				s.serving.Go(func() { s.refuseConn(c) })
			default:
				c.ForceClose()
			}
		}
	}
}

// serveConn serves a connection until it is closed. A panic that nothing else has recovered ends only that connection.
func (s *Server) serveConn(c *downstream.Conn) {
	defer rescue.Recover(func(p *rescue.Error) {
		s.logAnyPanic(p)
		c.Abort()
	})
	if c.Serve(s.http.ServeConn, s.logConnError) {
		s.trimmer.StreamStarted()
		s.serving.Go(func() { s.serveStream(c) })
	}
}

// serveStream writes a streamed response, and then serves the connection again.
func (s *Server) serveStream(c *downstream.Conn) {
	defer rescue.Recover(func(p *rescue.Error) {
		s.logAnyPanic(p)
		c.Abort()
	})
	if c.ServeStream(s.logConnError) {
		s.serveConn(c)
	}
}

// logConnError logs an abnormal end of a connection.
func (s *Server) logConnError(err error) {
	if err != nil {
		s.Log.Debug("connection ended", "error", failure.Unquoted(err))
	}
}

// refuseConn responds that there are too many connections, and closes the connection.
func (s *Server) refuseConn(c *downstream.Conn) {
	defer func() { <-s.refusals }()
	defer rescue.Recover(func(p *rescue.Error) {
		s.logAnyPanic(p)
		c.ForceClose()
	})
	c.Refuse(failure.TooManyConnections())
}

// trackConn passes fasthttp's state of a connection on to the connection.
func trackConn(c net.Conn, state fasthttp.ConnState) {
	conn, ok := c.(*downstream.Conn)
	if !ok {
		return
	}
	switch state {
	case fasthttp.StateActive:
		conn.SetActive()
	case fasthttp.StateIdle:
		conn.SetIdle()
	case fasthttp.StateClosed:
		conn.SetClosed()
	}
}

// connLimits returns the connection limits of a configuration.
func connLimits(c *config.Server) downstream.Limits {
	return downstream.Limits{Conns: c.MaxConns, ReadTimeout: c.ReadTimeout, IdleTimeout: c.IdleTimeout, WriteTimeout: c.WriteTimeout}
}

// closeListeners calls close on every listener, concurrently, and stops Serve from adding others.
func (s *Server) closeListeners(close func(*downstream.Listener) error) {
	s.mu.Lock()
	s.stopping = true
	listeners := s.listeners
	s.mu.Unlock()
	var all sync.WaitGroup
	for _, l := range listeners {
		all.Go(func() {
			if err := close(l); err != nil {
				s.Log.Warn("close listener", "error", err)
			}
		})
	}
	all.Wait()
}

// Shutdown stops accepting connections and waits for requests in flight. If ctx ends first, open streams get an error
// frame, requests without a response get a 503, and Shutdown returns ctx's error. The Server cannot be used afterwards.
func (s *Server) Shutdown(ctx context.Context) (err error) {
	s.shutdownOnce.Do(func() {
		s.Drain()
		s.closeListeners((*downstream.Listener).Stop)
		if err = s.clients.Finish(ctx); err != nil {
			s.shutdownTimedOut.Store(true)
			grace, cancel := context.WithTimeout(context.Background(), errorFrameTimeout)
			defer cancel()
			s.clients.End(grace)
		}
		s.Close()
	})
	return err
}

// Close releases everything the Server holds: plugins, connections to providers, goroutines. It is for a Server that
// has been shut down or has never served.
func (s *Server) Close() {
	s.closeOnce.Do(func() {
		s.cancelShadows(errClosed)
		s.background.Close()
		s.closeListeners((*downstream.Listener).Close)
		s.clients.ForceClose()
		s.serving.Wait()
		s.admin.Close()
		if g := s.current.Swap(nil); g != nil {
			g.Release()
		}
		s.reloading.Lock()
		if s.cancelReload != nil {
			s.cancelReload(errClosed)
		}
		s.reloading.Unlock()
		// Wait for replaced generations too, because their plugins run in the engine.
		s.open.unclosed.Wait()
		s.builder.issuers.Wait()
		if err := s.plugins.Close(); err != nil {
			s.Log.Warn("close plugin engine", "error", err)
		}
		s.exporter.Close(exportGrace)
		s.alerts.Close()
		s.canaries.Close()
		if err := s.owners.Close(); err != nil {
			s.Log.Warn("close the record of stored responses", "error", err)
		}
		s.books.Close()
	})
}

// Drain announces a shutdown: the Server reports that it is not ready, so that load balancers stop sending requests
// before Shutdown. It keeps serving, but cancels requests to shadow targets.
func (s *Server) Drain() {
	s.health.draining.Store(true)
	s.cancelShadows(errDraining)
}

// Draining reports whether Drain or Shutdown has been called.
func (s *Server) Draining() bool { return s.health.draining.Load() }

// Ready returns nil if load balancers should send requests to the gateway, and otherwise the reason why not.
func (s *Server) Ready() error {
	s.health.mu.Lock()
	serving := s.health.serving
	s.health.mu.Unlock()
	switch {
	case s.Draining():
		return errDraining
	case !serving:
		return errNotServing
	}
	g := s.acquire()
	if g == nil {
		return errDraining
	}
	defer g.Release()
	if len(g.providers) == 0 {
		return errNoProviders
	}
	return nil
}

// The reasons for not being ready.
var (
	errNotServing  = errors.New("the gateway is not serving yet")
	errDraining    = errors.New("the gateway is shutting down")
	errNoProviders = errors.New("no provider is enabled")
)

// ServeAdmin serves health checks, metrics and status on ln until Close or the end of Shutdown, and closes ln. The
// gateway's clients must not be able to reach ln.
func (s *Server) ServeAdmin(ln net.Listener) error { return s.admin.Serve(ln) }

// ReloadFailed records, for metrics and status, that a new configuration could not be loaded, so that Reload was not
// called. err must not contain a credential.
func (s *Server) ReloadFailed(err error) { s.health.recordReload(s.Now(), err) }

// health is the Server's readiness and the outcome of its last Reload. The zero value is that of a Server that does not
// serve yet.
type health struct {
	draining atomic.Bool

	mu      sync.Mutex
	serving bool
	reloads reloads
}

// reloads counts the outcomes of reloads.
type reloads struct {
	succeeded, failed int64
	at                time.Time // time of the last one, or of the start
	err               error     // outcome of the last one
}

func (h *health) setServing() {
	h.mu.Lock()
	h.serving = true
	h.mu.Unlock()
}

func (h *health) recordReload(now time.Time, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reloads.at, h.reloads.err = now, err
	if err != nil {
		h.reloads.failed++
		return
	}
	h.reloads.succeeded++
}

func (h *health) lastReload() reloads {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.reloads
}

var _ admin.Gateway = (*Server)(nil)

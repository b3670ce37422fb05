// Package proxy is the gateway: it serves chat completions, Messages, Responses and Gemini over HTTP, and gets its responses from the
// providers of a configuration, through their plugins.
//
// It owns the HTTP surface and the way of a request, a file a step: http (routing and refusals), request (one completion, from
// acceptance to its body), attempt (targets in order, one attempt), stream (events read, chunks written) and account (headers,
// records, release). Beside them are Server with its lifetime (server, reload, options), the client APIs (apis), the generations of the
// configuration (generation, build), what the gateway shows of itself (metrics, status, explain), and what commands do with
// plugins and accounts (plugins, ledger). Some requests have more than one attempt at a time: a hedge, which races the first one
// (hedge), and copies for shadows (shadow).
//
// It does not know what a head says (internal/endpoint), who may come in (internal/admission), how a request is read and a
// response spelled (internal/openai, internal/messages, internal/responses), how it is split into events (internal/framing),
// how a client's connection is kept (internal/downstream), how a provider is reached (internal/upstream), or how a plugin runs
// (internal/plugin).
//
// Concurrency: a Server is safe for concurrent use. A completion belongs to the goroutine that serves its connection, from
// acceptance to the last byte; it has no second goroutine, timer or channel, except while a Watcher waits for it, while a hedge
// races its first attempt, and while fasthttp lets go of its connection.
package proxy

import (
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

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/accounting"
	"github.com/sluice-gateway/sluice/proxy/internal/admin"
	"github.com/sluice-gateway/sluice/proxy/internal/admission"
	"github.com/sluice-gateway/sluice/proxy/internal/buffers"
	"github.com/sluice-gateway/sluice/proxy/internal/capacity"
	"github.com/sluice-gateway/sluice/proxy/internal/downstream"
	"github.com/sluice-gateway/sluice/proxy/internal/failure"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
	"github.com/sluice-gateway/sluice/proxy/internal/responses"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/canary"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/catalog"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/policies"
	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
	"github.com/sluice-gateway/sluice/proxy/internal/thinking"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream/configured"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream/credential"
)

// readBuffer holds a request's head: a larger one is 431.
const readBuffer = 32 << 10

// Server is a gateway. Make it with New; Serve serves a listener until Shutdown or Close.
type Server struct {
	log        *slog.Logger
	now        func() time.Time
	random     func() uint64
	version    string
	logDropped func() int64
	started    *config.Config // what the listeners were opened for
	startedAt  time.Time

	clients   *downstream.Conns
	http      fasthttp.Server
	admission *admission.Controller
	apis      clientAPIs
	buffers   buffers.Pool
	thinking  *thinking.Memory  // outlives a reload
	responses *responses.Memory // outlives a reload; nil: nothing is kept
	plugins   *plugin.Host
	registry  routing.Registry
	routings  routings
	copies    context.Context // of the copies of requests that shadows are sent
	endCopies context.CancelCauseFunc
	canaries  *canary.Set // outlive a reload
	books     *accounting.Books
	recorder  *Recorder // nil: nothing is recorded
	account   telemetry.Log
	metrics   *telemetry.Metrics
	health    health
	admin     *admin.Server

	builder builder
	current atomic.Pointer[generation]
	open    openGenerations

	reloading    sync.Mutex              // held while a Reload begins, and while it replaces the generation
	cancelReload context.CancelCauseFunc // ends the Reload that began last

	serving  sync.WaitGroup // listeners and connections
	refusals chan struct{}  // has room for one more connection to be told that there are too many
	cut      atomic.Bool    // the time to shut down is over

	mu        sync.Mutex
	listeners []*downstream.Listener
	stopping  bool // listeners are closed, and no other is served

	closeOnce    sync.Once
	shutdownOnce sync.Once
}

// New builds the gateway that a configuration describes. It loads and compiles the plugins in use, and fails with all
// that is wrong with them.
func New(ctx context.Context, o Options) (*Server, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Uint64
	}
	cfg := o.Config
	s := &Server{
		log: o.Log, metrics: telemetry.NewMetrics(), version: o.Version, logDropped: o.LogDropped, now: o.Now, random: o.Random,
		recorder: o.Recorder, started: cfg, startedAt: o.Now(), refusals: make(chan struct{}, maxRefusals),
	}
	machine := capacity.Detect()
	if r := cfg.Responses; r.Memory > 0 {
		size := int(r.Memory)
		if r.Memory == config.DefaultResponsesMemory {
			size = machine.Share(size)
		}
		s.responses = responses.NewMemory(size, r.TTL, o.Now)
	}
	s.apis.init(responses.Options{
		Sealer: newSealer(cfg), Memory: s.responses, ShowReasoning: cfg.Responses.ShowReasoning, Now: o.Now,
	})
	s.account = telemetry.Log{Logger: o.Log, Now: o.Now, Metrics: s.metrics}
	limits := admission.WithCapacity(cfg.Server, machine)
	s.admission = admission.New(limits, s.metrics, s.log)
	s.copies, s.endCopies = context.WithCancelCause(context.Background())
	s.thinking = thinking.NewMemory(machine.Share(thinking.DefaultMaxSize), thinking.DefaultTTL, o.Now)
	certificate, err := cfg.Server.TLS.Load()
	if err != nil {
		return nil, &BuildError{err}
	}
	s.clients = downstream.New(downstream.Options{
		Limits: connLimits(limits), Certificate: certificate, Log: s.log, HTTPSRequired: failure.HTTPSRequired, Panicked: s.logAnyPanic,
	})
	s.books, err = accounting.Open(cfg, accounting.Options{
		StateDir: o.StateDir, Offline: o.Offline, Redactor: func() *credential.Redactor { return configured.Redactor(cfg) }, Log: o.Log, Now: o.Now,
	})
	if err != nil {
		return nil, &BuildError{err}
	}
	kept := canary.Options{Now: o.Now, Log: o.Log}
	if o.StateDir != "" {
		kept.Dir = func() (string, error) { return s.books.StateFolder("canary") }
	}
	s.canaries = canary.New(kept)
	if s.plugins, err = plugin.New(o.plugins()); err != nil {
		s.books.Close()
		return nil, fmt.Errorf("plugin engine: %w", err)
	}
	s.admin = admin.New(admin.Options{Gateway: s, Metrics: s.metrics, Hosts: cfg.Admin.Hosts, Log: s.log})
	s.builder = builder{
		bundled: o.Bundled, plugins: s.plugins, policies: policies.Lasting{Registry: &s.registry, Canaries: s.canaries}, books: s.books, open: &s.open, log: s.log, now: s.now,
		panicked: s.logAnyPanic,
	}
	g, err := s.builder.build(ctx, cfg, nil)
	if err != nil {
		defer s.books.Close()
		return nil, errors.Join(err, s.plugins.Close())
	}
	s.health.reloads.at = g.made
	s.current.Store(g)
	s.canaries.Use(g.policies.Canaries())
	s.books.Use(cfg, g.accounts)
	setMetricNames(s.metrics, cfg)
	s.metrics.Pull(func(m *telemetry.Sample) { scrape{s, m}.all() })
	// An idle connection holds the memory of its last bodies. The limit is one of the process.
	fasthttp.SetBodySizePoolLimit(buffers.MaxKept, buffers.MaxKept)
	s.http = fasthttp.Server{
		Handler:                      s.handle,
		ErrorHandler:                 s.handleReadError,
		HeaderReceived:               s.headReceived,
		ExpectHandler:                s.expectContinue,
		Logger:                       fasthttpLogger{s.log},
		ConnState:                    trackConn,
		Concurrency:                  math.MaxInt32, // downstream has the limit
		ReadBufferSize:               readBuffer,
		LazyRequestTime:              true, // it is not used
		StreamRequestBody:            true, // readBody reads it, once there is room for it
		DisablePreParseMultipartForm: true,
		NoDefaultServerHeader:        true,
		NoDefaultContentType:         true,
		SecureErrorLogMessage:        true,
	}
	s.log.Info("limits", "conns", limits.MaxConns, "requests", limits.MaxRequests, "body", limits.MaxBody, "body_memory", limits.MaxBodyMemory,
		"memory", machine.Memory, "memory_from", machine.From, "descriptors", machine.Descriptors)
	return s, nil
}

// acquire takes a reference of the current generation; nil after Close.
func (s *Server) acquire() *generation {
	for {
		g := s.current.Load()
		if g == nil || g.acquire() {
			return g
		}
	}
}

// Models is what GET /v1/models lists for a key that may use everything.
func (s *Server) Models(ctx context.Context) []*catalog.Model {
	g := s.acquire()
	if g == nil {
		return nil
	}
	defer g.release()
	return g.catalog.List(ctx)
}

// logPanic logs and counts a panic, once. request is the request's ID, "" where it concerns none.
func (s *Server) logPanic(request string, p *rescue.Error) {
	if p.First() {
		s.metrics.Panic()
		s.log.Error("panic", "request", request, "type", p.Type, "stack", string(p.Stack))
	}
}

// logAnyPanic logs and counts a panic that concerns no request.
func (s *Server) logAnyPanic(p *rescue.Error) { s.logPanic("", p) }

// logPanicOf logs and counts the panic that err is, if it is one.
func (s *Server) logPanicOf(request string, err error) {
	if p, ok := errors.AsType[*rescue.Error](err); ok {
		s.logPanic(request, p)
	}
}

// cutGrace is how long streams that were cut at the end of a shutdown get to write their error frames.
const cutGrace = 2 * time.Second

// maxRefusals is how many connections beyond the limit get a response at a time. Others are just closed.
const maxRefusals = 64

// Serve accepts connections from ln until Shutdown or Close, and closes it. It returns nil after either, also where
// that came first. With TLS configured, clients speak it on ln, which must not do so itself.
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

// serveConn serves a connection to its end. A panic that got past everything else ends that connection only.
func (s *Server) serveConn(c *downstream.Conn) {
	defer rescue.Recover(func(p *rescue.Error) {
		s.logAnyPanic(p)
		c.Abort()
	})
	c.Serve(s.http.ServeConn, s.logConnError)
}

// logConnError logs an abnormal end of a connection.
func (s *Server) logConnError(err error) {
	if err != nil {
		s.log.Debug("connection ended", "error", failure.Unquoted(err))
	}
}

// refuseConn tells a connection that there are too many.
func (s *Server) refuseConn(c *downstream.Conn) {
	defer func() { <-s.refusals }()
	defer rescue.Recover(func(p *rescue.Error) {
		s.logAnyPanic(p)
		c.ForceClose()
	})
	c.Refuse(failure.TooManyConnections())
}

// trackConn tells a connection how far fasthttp is with it.
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

// connLimits are the limits of connections that the configuration sets.
func connLimits(c *config.Server) downstream.Limits {
	return downstream.Limits{Conns: c.MaxConns, ReadTimeout: c.ReadTimeout, IdleTimeout: c.IdleTimeout, WriteTimeout: c.WriteTimeout}
}

// closeListeners closes the listeners with close.
func (s *Server) closeListeners(close func(*downstream.Listener) error) {
	s.mu.Lock()
	s.stopping = true
	listeners := s.listeners
	s.mu.Unlock()
	var all sync.WaitGroup
	for _, l := range listeners {
		all.Go(func() {
			if err := close(l); err != nil {
				s.log.Warn("close listener", "error", err)
			}
		})
	}
	all.Wait()
}

// Shutdown stops accepting connections and waits for what is in flight. If ctx ends first, streams that are still open get
// an error frame, requests without a response a 503, and ctx's error is returned. The Server cannot be used after it.
func (s *Server) Shutdown(ctx context.Context) (err error) {
	s.shutdownOnce.Do(func() {
		s.Drain()
		s.closeListeners((*downstream.Listener).Stop)
		if err = s.clients.Finish(ctx); err != nil {
			s.cut.Store(true)
			grace, cancel := context.WithTimeout(context.Background(), cutGrace)
			defer cancel()
			s.clients.End(grace)
		}
		s.Close()
	})
	return err
}

// Close releases what the Server holds: plugins, connections to providers, goroutines. It is for a Server that has been
// shut down or never served.
func (s *Server) Close() {
	s.closeOnce.Do(func() {
		s.endCopies(errClosed)
		s.closeListeners((*downstream.Listener).Close)
		s.clients.ForceClose()
		s.serving.Wait()
		s.admin.Close()
		if g := s.current.Swap(nil); g != nil {
			g.release()
		}
		s.reloading.Lock()
		if s.cancelReload != nil {
			s.cancelReload(errClosed)
		}
		s.reloading.Unlock()
		// Those that a Reload has replaced as well: their plugins run in the engine.
		s.open.unclosed.Wait()
		if err := s.plugins.Close(); err != nil {
			s.log.Warn("close plugin engine", "error", err)
		}
		s.canaries.Close()
		s.books.Close()
	})
}

// Drain announces a shutdown: the gateway is not ready from here on, and goes on serving, but for copies that shadows were sent. That
// gives load balancers time to notice before Shutdown.
func (s *Server) Drain() {
	s.health.draining.Store(true)
	s.endCopies(errDraining)
}

// Draining reports whether Drain or Shutdown has been called.
func (s *Server) Draining() bool { return s.health.draining.Load() }

// Ready returns nil if requests should be sent to the gateway, else why not.
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
	defer g.release()
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

// ServeAdmin serves health, metrics and status on ln until Close or the end of Shutdown, and closes ln. ln must not be
// reachable for the gateway's clients.
func (s *Server) ServeAdmin(ln net.Listener) error { return s.admin.Serve(ln) }

// ReloadFailed records, for metrics and status, that a configuration could not even be given to Reload. err must not hold
// a credential.
func (s *Server) ReloadFailed(err error) { s.health.recordReload(s.now(), err) }

// health is where the Server is between its start and its end, and how its last Reload went. The zero value is that of a
// Server that is not serving yet.
type health struct {
	draining atomic.Bool

	mu      sync.Mutex
	serving bool
	reloads reloads
}

// reloads are the outcomes of changes of configuration.
type reloads struct {
	succeeded, failed int64
	at                time.Time // of the last one, or of the start
	err               error     // of the last one
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

// fasthttpLogger is fasthttp's logger. It reports broken connections, of which the access log has the requests.
type fasthttpLogger struct{ log *slog.Logger }

func (l fasthttpLogger) Printf(format string, args ...any) {
	for i, a := range args {
		if err, ok := a.(error); ok {
			args[i] = failure.Unquoted(err)
		}
	}
	l.log.Debug("fasthttp", "text", fmt.Sprintf(format, args...))
}

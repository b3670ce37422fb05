package proxy

import (
	"crypto/tls"
	"net"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/downstream"
	"github.com/sluice-gateway/sluice/proxy/internal/openai"

	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/access"
	"github.com/sluice-gateway/sluice/proxy/internal/admin"
	"github.com/sluice-gateway/sluice/proxy/internal/capacity"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/engine"
	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/catalog"
	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
)

const (
	// readBuffer holds a request's head: a larger one is 431.
	readBuffer = 32 << 10

	// keepBody is how large a buffer may be to be kept for another request.
	keepBody = 256 << 10
)

// Options are what a Server is made of.
type Options struct {
	Config *config.Config
	// Bundled has the modules of the bundled plugins: NAME.wasm, or all.wasm for those that have none of their own. It may be
	// a Digester. nil: there are none.
	Bundled fs.FS
	Log     *slog.Logger // nil: nothing is logged
	// CacheDir is where compiled plugins are kept between starts; Config.Server.CacheDir comes first. "": nowhere.
	CacheDir string
	// PluginLog lets plugins write to Log.
	PluginLog bool
	// PluginWait is how long a request waits for its turn with a plugin before it is turned away; 0 for one second.
	PluginWait time.Duration
	// Version is what the gateway says of itself in metrics and status.
	Version string
	// LogDropped is how many lines of Log were lost; nil: nobody knows.
	LogDropped func() int64
	// Now is the clock for what is written down, and for how long things took; nil: time.Now. Deadlines of connections go by
	// the system's.
	Now func() time.Time
	// Loading is called when a module begins to be loaded, which may take seconds where it is not in CacheDir, with the
	// plugins that are made from it, and what it returns when that has ended. Modules are loaded in parallel. nil: nobody is
	// told.
	Loading func(plugins []string) (ended func())
}

// Server is a gateway. Make it with New; Serve serves a listener until Shutdown or Close.
type Server struct {
	log      *slog.Logger
	account  telemetry.Log
	plugins  *plugin.Host
	board    routing.Registry
	http     fasthttp.Server
	now      func() time.Time
	started  *config.Config // what the listeners were opened for
	settings settings

	current   atomic.Pointer[generation]
	reloading sync.Mutex // one Reload at a time

	generations sync.WaitGroup // that are not closed; Reload adds to it while it holds one
	bundled     fs.FS

	writers  sync.Pool // *response.Writer
	requests sync.Pool // *openai.Request
	works    sync.Pool // *work
	bodies   buffers

	metrics    *telemetry.Metrics
	estate     estate
	version    string
	begun      time.Time
	logDropped func() int64

	usage       access.Usage
	authLimiter access.AuthLimiter

	health health
	admin  *admin.Server

	admission admission
	clients   *downstream.Conns
	serving   sync.WaitGroup // listeners and connections
	refuses   chan struct{}  // has room for one more connection to be told that there is none
	cut       atomic.Bool    // the time to finish is over

	mu        sync.Mutex
	listeners []*downstream.Listener
	stopping  bool // listeners are closed, and no other is served

	closeOnce sync.Once
	shut      sync.Once
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
	cfg := o.Config
	s := &Server{log: o.Log, metrics: telemetry.NewMetrics(), version: o.Version, logDropped: o.LogDropped, now: o.Now, started: cfg}
	s.account = telemetry.Log{Logger: o.Log, Now: o.Now, Metrics: s.metrics}
	machine := capacity.Detect()
	limits := sized(cfg.Server, machine)
	s.settings.Store(limits)
	s.refuses = make(chan struct{}, maxRefusals)
	var err error
	var certificate *tls.Certificate
	if cfg.Server.TLS != nil {
		if certificate, err = cfg.Server.TLS.Load(); err != nil {
			return nil, &BuildError{err}
		}
	}
	s.clients = downstream.New(downstream.Options{
		Limits: connLimits(limits), Certificate: certificate, Log: s.log, HTTPSRequired: httpsRequired,
		Panicked: func(p *rescue.Error) { s.logPanic("", p) },
	})
	host, err := plugin.New(o.plugins())
	if err != nil {
		return nil, fmt.Errorf("plugin engine: %w", err)
	}
	s.plugins = host
	s.bundled = o.Bundled
	s.begun = s.now()
	s.admin = admin.New(admin.Options{Gateway: s, Metrics: s.metrics, Hosts: cfg.Admin.Hosts, Log: s.log})
	g, err := s.build(ctx, cfg, nil)
	if err != nil {
		return nil, errors.Join(err, host.Close())
	}
	s.health.reload.at = g.made
	s.current.Store(g)
	s.name(g)
	s.metrics.Pull(s.sample)
	// An idle connection holds the memory of its last bodies. The limit is one of the process.
	fasthttp.SetBodySizePoolLimit(keepBody, keepBody)
	s.http = fasthttp.Server{
		Handler:                      s.handle,
		ErrorHandler:                 s.unreadable,
		HeaderReceived:               s.early,
		ExpectHandler:                s.expect,
		Logger:                       quiet{s.log},
		ConnState:                    trackConn,
		Concurrency:                  math.MaxInt32, // the listener has the limit
		ReadBufferSize:               readBuffer,
		LazyRequestTime:              true, // nobody asks for it
		StreamRequestBody:            true, // complete reads it, once there is room for it
		DisablePreParseMultipartForm: true,
		NoDefaultServerHeader:        true,
		NoDefaultContentType:         true,
		SecureErrorLogMessage:        true,
	}
	s.log.Info("limits", "conns", limits.MaxConns, "requests", limits.MaxRequests, "body_memory", limits.MaxBodyMemory,
		"memory", machine.Memory, "memory_from", machine.From, "descriptors", machine.Descriptors)
	return s, nil
}

// plugins is how plugins are run.
func (o *Options) plugins() plugin.Options {
	p := plugin.Options{Engine: engine.Options{CacheDir: o.CacheDir}, Log: o.Log, Loading: o.Loading, Queue: o.Config.Server.MaxQueue, Wait: o.PluginWait}
	if o.Config.Server.CacheDir != "" {
		p.Engine.CacheDir = o.Config.Server.CacheDir
	}
	if o.PluginLog {
		p.PluginLog = o.Log
	}
	return p
}

// acquire pins the current generation; nil after Close.
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

// logPanicOf logs and counts the panic that err is, if it is one.
func (s *Server) logPanicOf(request string, err error) {
	if p, ok := errors.AsType[*rescue.Error](err); ok {
		s.logPanic(request, p)
	}
}

// cutGrace is how long streams that were cut at the end of a shutdown get to write their error frames.
const cutGrace = 2 * time.Second

// maxRefusals is how many connections beyond the limit are told so at a time. Those beyond that are closed.
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
	s.health.serve()
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
			case s.refuses <- struct{}{}:
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
		s.logPanic("", p)
		c.Abort()
	})
	c.Serve(s.http.ServeConn, s.logConnError)
}

// logConnError logs an abnormal end of a connection.
func (s *Server) logConnError(err error) {
	if err != nil {
		s.log.Debug("connection ended", "error", unquoted(err))
	}
}

// refuseConn tells a connection that there are too many.
func (s *Server) refuseConn(c *downstream.Conn) {
	defer func() { <-s.refuses }()
	defer rescue.Recover(func(p *rescue.Error) {
		s.logPanic("", p)
		c.ForceClose()
	})
	c.Refuse(refusal(&apierror.Error{
		Status: 503, Kind: apierror.KindServiceUnavailable, Code: "gateway_overloaded", RetryAfter: time.Second,
		Message: "Too many connections.",
	}))
}

// httpsRequired is the response to an HTTP request on a TLS port.
func httpsRequired() []byte {
	return refusal(&apierror.Error{
		Status: 400, Kind: apierror.KindInvalidRequest, Code: "https_required",
		Message: "HTTP was sent to an HTTPS port: the address begins with https://.",
	})
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

// refusal is an answer to a connection of which no request is read.
func refusal(e *apierror.Error) []byte {
	body := openai.AppendErrorBody(nil, e)
	out := fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nX-Request-Id: %s\r\n",
		e.Status, fasthttp.StatusMessage(e.Status), len(body), newRequestID())
	if e.RetryAfter > 0 {
		out = fmt.Appendf(out, "Retry-After: %d\r\nRetry-After-Ms: %d\r\n", int(e.RetryAfter.Seconds()), e.RetryAfter.Milliseconds())
	}
	return append(append(out, "Connection: close\r\n\r\n"...), body...)
}

// stop closes the listeners with close.
func (s *Server) stop(close func(*downstream.Listener) error) {
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

// Shutdown stops accepting connections and waits for what is in flight. Where ctx ends first, streams that are still
// open get an error frame, answers that have not begun a 503, and ctx's error is returned. The Server cannot be used
// after it.
func (s *Server) Shutdown(ctx context.Context) (err error) {
	s.shut.Do(func() {
		s.Drain()
		s.stop((*downstream.Listener).Stop)
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

// Close gives back what the Server holds: plugins, connections to providers, goroutines. It is for a Server that has
// been shut down or never served.
func (s *Server) Close() {
	s.closeOnce.Do(func() {
		s.stop((*downstream.Listener).Close)
		s.clients.ForceClose()
		s.serving.Wait()
		s.admin.Close()
		if g := s.current.Swap(nil); g != nil {
			g.release()
		}
		// Also of those that a Reload has replaced: what they run is part of the engine.
		s.generations.Wait()
		if err := s.plugins.Close(); err != nil {
			s.log.Warn("close plugin engine", "error", err)
		}
	})
}

// shutdownError is what a request gets that the end of a shutdown overtook.
func (s *Server) shutdownError() *apierror.Error {
	return &apierror.Error{
		Status: 503, Kind: apierror.KindServiceUnavailable, Code: "gateway_shutdown", Message: "The gateway is shutting down.",
		RetryAfter: time.Second,
	}
}

// Drain says that the gateway is about to shut down: it is not ready any more, and serves on. Whoever sends requests to
// it gets time to notice before Shutdown.
func (s *Server) Drain() { s.health.draining.Store(true) }

// Draining tells whether Drain or Shutdown has been called.
func (s *Server) Draining() bool { return s.health.draining.Load() }

// Ready is nil where requests should be sent to the gateway, else why not.
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
	errNotServing  = errors.New("the gateway does not serve yet")
	errDraining    = errors.New("the gateway is shutting down")
	errNoProviders = errors.New("no provider is on")
)

// ServeAdmin serves health, metrics and status on ln until Close, which is the end of Shutdown too, and closes ln. Clients
// of the gateway have no business there.
func (s *Server) ServeAdmin(ln net.Listener) error { return s.admin.Serve(ln) }

// ReloadFailed remembers, for metrics and status, that a configuration could not even be handed to Reload. err must not
// hold a credential.
func (s *Server) ReloadFailed(err error) { s.health.reloaded(s.now(), err) }

// health is what is known of the Server as a whole: where it is between its start and its end, and how its last change of
// configuration went. The zero value is that of a Server that does not serve yet.
type health struct {
	draining atomic.Bool

	mu      sync.Mutex
	serving bool
	reload  reload
}

// reload is how the changes of configuration went.
type reload struct {
	succeeded, failed int64
	at                time.Time // of the last one, or of the start
	err               error     // of the last one
}

func (h *health) serve() {
	h.mu.Lock()
	h.serving = true
	h.mu.Unlock()
}

// reloaded remembers the outcome of a change of configuration.
func (h *health) reloaded(now time.Time, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reload.at, h.reload.err = now, err
	if err != nil {
		h.reload.failed++
		return
	}
	h.reload.succeeded++
}

func (h *health) lastReload() reload {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.reload
}

var _ admin.Gateway = (*Server)(nil)

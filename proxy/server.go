package proxy

import (
	"github.com/sluice-gateway/sluice/proxy/internal/openai"

	"github.com/sluice-gateway/sluice/proxy/internal/response"

	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/access"
	"github.com/sluice-gateway/sluice/proxy/internal/admin"
	"github.com/sluice-gateway/sluice/proxy/internal/capacity"
	"github.com/sluice-gateway/sluice/proxy/internal/catalog"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/engine"
	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
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
	board    routing.Board
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

	ledger  access.Ledger
	guesses access.Guesses

	health health
	admin  *admin.Server

	admission admission
	clients   connections
	secure    *secure        // nil: clients speak plain HTTP
	serving   sync.WaitGroup // listeners and connections
	refuses   chan struct{}  // has room for one more connection to be told that there is none
	cut       atomic.Bool    // the time to finish is over

	mu        sync.Mutex
	listeners []*listener
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
	if s.secure, err = newSecure(cfg.Server.TLS, s.log); err != nil {
		return nil, &BuildError{err}
	}
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
		ConnState:                    s.track,
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

// panicked counts a panic of the host. The stack goes to the log, never the panic's value, which may hold anything.
func (s *Server) panicked(request string, value any, stack []byte) {
	s.metrics.Panic()
	s.log.Error("panic", "request", request, "type", fmt.Sprintf("%T", value), "stack", string(stack))
}

// rescued counts a panic that has come as an error, once.
func (s *Server) rescued(request string, err error) {
	if p, ok := errors.AsType[*rescue.Error](err); ok && p.First() {
		s.metrics.Panic()
		s.log.Error("panic", "request", request, "type", p.Type, "stack", string(p.Stack))
	}
}

// survive is deferred where a panic would end the process, and where nothing is left to be told to a client.
func (s *Server) survive(request string) {
	if v := recover(); v != nil {
		s.panicked(request, v, debug.Stack())
	}
}

func (s *Server) writer() *response.Writer {
	if w, ok := s.writers.Get().(*response.Writer); ok {
		return w
	}
	return openai.NewWriter()
}

func (s *Server) work() *work {
	if w, ok := s.works.Get().(*work); ok {
		return w
	}
	return newWork()
}

func (s *Server) request() *openai.Request {
	if r, ok := s.requests.Get().(*openai.Request); ok {
		return r
	}
	return new(openai.Request)
}

// buffers keeps the memory of requests' bodies and of whole answers. The large ones are kept apart, or most of them would
// be lent to requests of a line.
type buffers struct{ small, large, handles sync.Pool } // of *[]byte; those of handles are empty

const (
	// smallBuffer is how large a buffer for a body of unknown length is.
	smallBuffer = 4 << 10

	// largeBuffer is how large the smallest of the large ones is.
	largeBuffer = 32 << 10
)

func (b *buffers) of(size int) *sync.Pool {
	if size < largeBuffer {
		return &b.small
	}
	return &b.large
}

// get returns an empty buffer with room for a body of about size bytes.
func (b *buffers) get(size int) []byte {
	h, ok := b.of(size).Get().(*[]byte)
	if !ok {
		return make([]byte, 0, max(size, smallBuffer))
	}
	p := (*h)[:0]
	*h = nil
	b.handles.Put(h)
	return p
}

func (b *buffers) put(p []byte) {
	if cap(p) == 0 || cap(p) > keepBody {
		return
	}
	h, ok := b.handles.Get().(*[]byte)
	if !ok {
		h = new([]byte)
	}
	*h = p
	b.of(cap(p)).Put(h)
}

// quiet is fasthttp's logger. What it has to say of a connection, that it broke, the access log says of its request.
type quiet struct{ log *slog.Logger }

func (q quiet) Printf(format string, args ...any) {
	for i, a := range args {
		if err, ok := a.(error); ok {
			args[i] = unquoted(err)
		}
	}
	q.log.Debug("connection", "text", fmt.Sprintf(format, args...))
}

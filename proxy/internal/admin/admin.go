// Package admin serves what an operator asks of a gateway: health, readiness, metrics and status.
//
// It owns the addresses, the forms of the answers and the page for a browser. It does not know what a gateway is: a
// Gateway tells it. It only reads, it has no key, and it is served on a listener of its own; nothing that it is given
// may hold a credential, a prompt or an answer.
//
// Concurrency: a Server is safe for concurrent use. It has one goroutine of its own, which looks at the Gateway now and
// then, from the first Serve to Close.
package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/valyala/fasthttp"
)

// A request here has a head and nothing else, and an answer is made in memory: whatever takes longer is not meant well.
const (
	readTimeout  = 5 * time.Second
	writeTimeout = 10 * time.Second
	idleTimeout  = 2 * time.Minute // more than the time between two scrapes
	maxBody      = 1 << 10
	maxConns     = 64

	// closeGrace is how long answers that are under way get at the end.
	closeGrace = time.Second
)

// Gateway is what is told of.
type Gateway interface {
	// Ready is nil where requests should come, else why not.
	Ready() error
	Status() Status
}

// Metrics are what the gateway counts.
type Metrics interface {
	// Write writes all of them, in the text format of Prometheus.
	Write(w io.Writer) error
}

// Options are what a Server is made of.
type Options struct {
	Gateway Gateway
	Metrics Metrics
	Hosts   []string      // what a request's Host may be besides an IP address and localhost, lower case
	Log     *slog.Logger  // nil: nothing is logged
	Every   time.Duration // between two points of the page's pictures; 0: five seconds
}

// Server serves the addresses. Make it with New; Serve serves a listener until Close.
type Server struct {
	o       Options
	http    fasthttp.Server
	history history

	stop    chan struct{} // closed by Close
	watched chan struct{} // closed when the goroutine that watches has ended

	mu        sync.Mutex
	listeners []net.Listener
	conns     map[net.Conn]struct{}
	closed    bool
}

// New makes a Server.
func New(o Options) *Server {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Every <= 0 {
		o.Every = sampleEvery
	}
	s := &Server{o: o, conns: map[net.Conn]struct{}{}, stop: make(chan struct{}), watched: make(chan struct{})}
	s.http = fasthttp.Server{
		Handler:                      s.handle,
		Logger:                       quiet{},
		ConnState:                    s.track,
		Concurrency:                  maxConns,
		ReadTimeout:                  readTimeout,
		WriteTimeout:                 writeTimeout,
		IdleTimeout:                  idleTimeout,
		MaxRequestBodySize:           maxBody,
		DisablePreParseMultipartForm: true,
		NoDefaultServerHeader:        true,
		NoDefaultContentType:         true,
		CloseOnShutdown:              true,
		SecureErrorLogMessage:        true,
	}
	return s
}

// Serve accepts connections from ln until Close, and closes it. It returns nil after Close, also where that came first.
func (s *Server) Serve(ln net.Listener) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return ln.Close()
	}
	if s.listeners = append(s.listeners, ln); len(s.listeners) == 1 {
		go s.watch()
	}
	s.mu.Unlock()
	return s.http.Serve(ln)
}

// Close stops serving. Answers that are under way get a moment.
func (s *Server) Close() {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.closed = true
	close(s.stop)
	watching := len(s.listeners) > 0
	for _, ln := range s.listeners {
		// fasthttp closes it again, which is an error that says nothing.
		_ = ln.Close()
	}
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
	defer cancel()
	_ = s.http.ShutdownWithContext(ctx)
	if watching {
		<-s.watched
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		_ = c.Close()
	}
}

func (s *Server) track(c net.Conn, state fasthttp.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch state {
	case fasthttp.StateNew:
		s.conns[c] = struct{}{}
	case fasthttp.StateClosed, fasthttp.StateHijacked:
		delete(s.conns, c)
	}
}

// address is what is served at a path.
type address struct {
	write func(s *Server, ctx *fasthttp.RequestCtx)
	// anyHost: it says nothing that is worth reading through somebody's browser, and probes name a host as they like.
	anyHost bool
}

var addresses = map[string]address{
	"/healthz": {(*Server).health, true},
	"/readyz":  {(*Server).readiness, true},
	"/metrics": {(*Server).metrics, false},
	"/status":  {(*Server).status, false},
	"/":        {(*Server).page, false},
}

func (s *Server) handle(ctx *fasthttp.RequestCtx) {
	defer func() {
		if v := recover(); v != nil {
			s.panicked(v)
			ctx.Response.Reset()
			say(ctx, fasthttp.StatusInternalServerError, "The gateway failed.")
		}
	}()
	h := &ctx.Response.Header
	h.Set("cache-control", "no-store")
	h.Set("x-content-type-options", "nosniff")
	path, _, _ := strings.Cut(string(ctx.Request.Header.RequestURI()), "?")
	a, ok := addresses[path]
	switch {
	case !ok:
		say(ctx, fasthttp.StatusNotFound, "There is nothing here.")
	case !ctx.IsGet() && !ctx.IsHead():
		h.Set("allow", "GET, HEAD")
		say(ctx, fasthttp.StatusMethodNotAllowed, "This address takes GET and HEAD.")
	case !a.anyHost && !s.known(string(ctx.Request.Header.Host())):
		say(ctx, fasthttp.StatusMisdirectedRequest, "This name is not one of the gateway's. Use its IP address, or add the name to hosts in [admin].")
	default:
		a.write(s, ctx)
	}
}

// panicked says so without the panic's value, which may hold anything.
func (s *Server) panicked(v any) {
	s.o.Log.Error("panic", "listener", "admin", "type", fmt.Sprintf("%T", v), "stack", string(debug.Stack()))
}

// known tells whether a request means this gateway, and is not one that a page in a browser makes with a name of its own
// that it has led here. Such a page cannot ask by an IP address or by localhost without being of another origin, which
// may not read the answer. Whoever sends no Host is no browser.
func (s *Server) known(host string) bool {
	if host == "" {
		return true
	}
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return true
	}
	return host == "localhost" || slices.Contains(s.o.Hosts, host)
}

func (s *Server) health(ctx *fasthttp.RequestCtx) { say(ctx, fasthttp.StatusOK, "ok") }

func (s *Server) readiness(ctx *fasthttp.RequestCtx) {
	if err := s.o.Gateway.Ready(); err != nil {
		say(ctx, fasthttp.StatusServiceUnavailable, "not ready: "+err.Error())
		return
	}
	say(ctx, fasthttp.StatusOK, "ready")
}

func (s *Server) metrics(ctx *fasthttp.RequestCtx) {
	var body bytes.Buffer
	if err := s.o.Metrics.Write(&body); err != nil {
		s.o.Log.Error("gather metrics", "error", err)
		if body.Len() == 0 {
			say(ctx, fasthttp.StatusInternalServerError, "The metrics could not be gathered.")
			return
		}
	}
	ctx.SetContentType(textFormat)
	ctx.Response.SetBodyRaw(body.Bytes())
}

func (s *Server) status(ctx *fasthttp.RequestCtx) {
	body, err := json.MarshalIndent(s.o.Gateway.Status(), "", "  ")
	if err != nil {
		s.o.Log.Error("write status", "error", err)
		say(ctx, fasthttp.StatusInternalServerError, "The status could not be written.")
		return
	}
	ctx.SetContentType("application/json")
	ctx.Response.SetBodyRaw(append(body, '\n'))
}

// textFormat is the content type of Prometheus' text format.
const textFormat = "text/plain; version=0.0.4; charset=utf-8"

// say answers with a line of text.
func say(ctx *fasthttp.RequestCtx, status int, text string) {
	ctx.SetStatusCode(status)
	ctx.SetContentType("text/plain; charset=utf-8")
	ctx.SetBodyString(text + "\n")
}

// quiet is fasthttp's logger: what it has to say of a connection helps nobody.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

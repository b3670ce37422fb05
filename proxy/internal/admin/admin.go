// Package admin serves the admin listener: health, readiness, metrics, status, the status page, and how a request would be routed.
//
// It owns the routes, the formats and the pages. What it shows comes from the Gateway interface. It changes nothing, requires no key and
// has its own listener; nothing that it shows may contain a credential, a prompt or a response.
//
// Concurrency: a Server is safe for concurrent use. One goroutine samples the Gateway from the first Serve to Close.
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
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/sluice-gateway/sluice/proxy/internal/budgets"
	"github.com/sluice-gateway/sluice/proxy/internal/journal"
	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
)

// Requests have no body, but those to explain, and responses are built in memory, so short timeouts suffice.
const (
	readTimeout  = 5 * time.Second
	writeTimeout = 10 * time.Second
	idleTimeout  = 2 * time.Minute // more than the time between two scrapes
	maxBody      = 1 << 10
	maxConns     = 64

	// closeGrace is how long Close waits for responses in flight.
	closeGrace = time.Second
)

// Gateway is the gateway whose state is served.
type Gateway interface {
	// Ready returns nil if the gateway is ready for requests, otherwise why not.
	Ready() error
	// Degraded returns what does not work although the gateway is ready, a sentence each.
	Degraded() []string
	// Status returns the gateway's state with one page of each list that can be long.
	Status(Page) Status
	// Explain says how a request would be routed. Its error is one of the request.
	Explain(context.Context, *ExplainRequest) (Explained, error)
	// Usage returns the ledger's sums; nil if the gateway has no ledger. The error of an invalid query is a *journal.QueryError.
	Usage(journal.Query) (*journal.Usage, error)
	// Budgets lists the budgets that a filter selects.
	Budgets(budgets.Filter) *budgets.List
}

// Metrics are the gateway's metrics.
type Metrics interface {
	// Write writes all metrics in the Prometheus text format.
	Write(w io.Writer) error
}

// Options configure a Server.
type Options struct {
	Gateway Gateway
	Metrics Metrics
	Hosts   []string      // allowed Host headers besides IP addresses and localhost, lower case
	Log     *slog.Logger  // nil: no logging
	Every   time.Duration // interval of the charts' samples; 0: 5 s
}

// Server serves the admin routes. Create it with New.
type Server struct {
	o       Options
	http    fasthttp.Server
	history history

	stop    chan struct{} // closed by Close
	sampled chan struct{} // closed when the sampling goroutine has ended

	mu        sync.Mutex
	listeners []net.Listener
	conns     map[net.Conn]struct{}
	closed    bool
}

// New returns a Server.
func New(o Options) *Server {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Every <= 0 {
		o.Every = sampleEvery
	}
	s := &Server{o: o, conns: map[net.Conn]struct{}{}, stop: make(chan struct{}), sampled: make(chan struct{})}
	s.http = fasthttp.Server{
		Handler:                      s.handle,
		HeaderReceived:               bodyLimit,
		Logger:                       discardLogger{},
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

// Serve accepts connections from ln until Close, and closes it. It returns nil after Close, even if that came first.
func (s *Server) Serve(ln net.Listener) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return ln.Close()
	}
	if s.listeners = append(s.listeners, ln); len(s.listeners) == 1 {
		go s.sampleLoop()
	}
	s.mu.Unlock()
	return s.http.Serve(ln)
}

// Close stops serving, after waiting briefly for responses in flight.
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
		// fasthttp closes it again; the error is irrelevant.
		_ = ln.Close()
	}
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
	defer cancel()
	_ = s.http.ShutdownWithContext(ctx)
	if watching {
		<-s.sampled
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

// route is what is served at a path.
type route struct {
	write func(s *Server, ctx *fasthttp.RequestCtx)
	// anyHost disables the check of the Host header: the response is harmless, and probes send arbitrary hosts.
	anyHost bool
	post    bool // POST is allowed as well
}

var routes = map[string]route{
	"/healthz": {write: (*Server).health, anyHost: true},
	"/readyz":  {write: (*Server).readiness, anyHost: true},
	"/metrics": {write: (*Server).metrics},
	"/status":  {write: (*Server).status},
	"/usage":   {write: (*Server).usage},
	"/budgets": {write: (*Server).budgets},
	"/explain": {write: (*Server).explain, post: true},
	"/":        {write: (*Server).page},
}

// bodyLimit limits the body of a request to what its route reads.
func bodyLimit(h *fasthttp.RequestHeader) fasthttp.RequestConfig {
	if path, _, _ := bytes.Cut(h.RequestURI(), []byte("?")); h.IsPost() && routes[string(path)].post {
		return fasthttp.RequestConfig{MaxRequestBodySize: maxExplain}
	}
	return fasthttp.RequestConfig{MaxRequestBodySize: maxBody}
}

func (s *Server) handle(ctx *fasthttp.RequestCtx) {
	defer rescue.Recover(func(p *rescue.Error) {
		s.logPanic(p)
		ctx.Response.Reset()
		respondText(ctx, fasthttp.StatusInternalServerError, "The gateway failed.")
	})
	h := &ctx.Response.Header
	h.Set("cache-control", "no-store")
	h.Set("x-content-type-options", "nosniff")
	path, _, _ := strings.Cut(string(ctx.Request.Header.RequestURI()), "?")
	a, ok := routes[path]
	switch {
	case !ok:
		respondText(ctx, fasthttp.StatusNotFound, "Not found.")
	case !ctx.IsGet() && !ctx.IsHead() && !(a.post && ctx.IsPost()):
		allowed, words := "GET, HEAD", "Only GET and HEAD are allowed."
		if a.post {
			allowed, words = "GET, HEAD, POST", "Only GET, HEAD and POST are allowed."
		}
		h.Set("allow", allowed)
		respondText(ctx, fasthttp.StatusMethodNotAllowed, words)
	case !a.anyHost && !s.allowedHost(string(ctx.Request.Header.Host())):
		respondText(ctx, fasthttp.StatusMisdirectedRequest, "Unknown host name. Use the IP address, or add the name to hosts in [admin].")
	default:
		a.write(s, ctx)
	}
}

// logPanic logs a panic without its value, which may contain anything.
func (s *Server) logPanic(p *rescue.Error) {
	s.o.Log.Error("panic", "listener", "admin", "type", p.Type, "stack", string(p.Stack))
}

// allowedHost protects against DNS rebinding: a web page could make its own host name resolve to this address, and then read
// responses as of the same origin. A page cannot do that with an IP address or localhost, and browsers always send a Host.
func (s *Server) allowedHost(host string) bool {
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

func (s *Server) health(ctx *fasthttp.RequestCtx) { respondText(ctx, fasthttp.StatusOK, "ok") }

func (s *Server) readiness(ctx *fasthttp.RequestCtx) {
	if err := s.o.Gateway.Ready(); err != nil {
		respondText(ctx, fasthttp.StatusServiceUnavailable, "not ready: "+err.Error())
		return
	}
	respondText(ctx, fasthttp.StatusOK, strings.Join(append([]string{"ready"}, s.o.Gateway.Degraded()...), "\n"))
}

func (s *Server) metrics(ctx *fasthttp.RequestCtx) {
	var body bytes.Buffer
	if err := s.o.Metrics.Write(&body); err != nil {
		s.o.Log.Error("collecting metrics failed", "error", err)
		if body.Len() == 0 {
			respondText(ctx, fasthttp.StatusInternalServerError, "Collecting metrics failed.")
			return
		}
	}
	ctx.SetContentType(textFormat)
	ctx.Response.SetBodyRaw(body.Bytes())
}

func (s *Server) status(ctx *fasthttp.RequestCtx) {
	page, ok := requestedPage(ctx)
	if !ok {
		respondText(ctx, fasthttp.StatusBadRequest, fmt.Sprintf("Invalid page: page is a number from 1, and size from 1 to %d.", maxPageSize))
		return
	}
	body, err := json.MarshalIndent(s.o.Gateway.Status(page), "", "  ")
	if err != nil {
		s.o.Log.Error("encoding status failed", "error", err)
		respondText(ctx, fasthttp.StatusInternalServerError, "Encoding the status failed.")
		return
	}
	ctx.SetContentType("application/json")
	ctx.Response.SetBodyRaw(append(body, '\n'))
}

// textFormat is the content type of Prometheus' text format.
const textFormat = "text/plain; version=0.0.4; charset=utf-8"

// respondText responds with a line of text.
func respondText(ctx *fasthttp.RequestCtx, status int, text string) {
	ctx.SetStatusCode(status)
	ctx.SetContentType("text/plain; charset=utf-8")
	ctx.SetBodyString(text + "\n")
}

// discardLogger discards fasthttp's messages about single connections.
type discardLogger struct{}

func (discardLogger) Printf(string, ...any) {}

// Package admin serves the admin listener: health, readiness, metrics, status, usage, budgets, recent requests, the
// status page, and how a request would be routed.
//
// It owns the routes, the formats and the pages, and gets all data from the Gateway interface and the list of recent
// requests. The admin API is read-only, has its own listener, and requires a token if one is set. Its responses must not
// contain credentials, prompts or responses of providers; recent requests contain what the log contains.
//
// Concurrency: a Server is safe for concurrent use. One goroutine samples the Gateway from the first Serve to Close, and
// each stream of requests has a goroutine.
package admin

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/sluice-gateway/sluice/proxy/internal/budgets"
	"github.com/sluice-gateway/sluice/proxy/internal/journal"
	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
)

// Only POST /explain has a body, and responses are built in memory, so short timeouts suffice.
const (
	readTimeout  = 5 * time.Second
	writeTimeout = 10 * time.Second
	idleTimeout  = 2 * time.Minute // longer than usual scrape intervals
	maxBody      = 1 << 10
	maxConns     = 64

	// closeGrace is how long Close waits for responses in flight.
	closeGrace = time.Second
)

// Gateway is the source of the data that a Server serves.
type Gateway interface {
	// Ready returns nil if the gateway is ready for requests, otherwise the reason why it is not.
	Ready() error
	// Degraded describes what does not work although the gateway is ready, one line each.
	Degraded() []string
	// Status returns the gateway's state with one page of each list that can be long.
	Status(Page) Status
	// Explain describes how a request would be routed. It fails only for an invalid request.
	Explain(context.Context, *ExplainRequest) (Explained, error)
	// Usage returns sums from the ledger, or nil if the gateway has no ledger. For an invalid query, it returns a
	// *journal.QueryError.
	Usage(journal.Query) (*journal.Usage, error)
	// Budgets returns the budgets that a filter selects.
	Budgets(budgets.Filter) *budgets.List
}

// Metrics are the gateway's metrics.
type Metrics interface {
	// Write writes all metrics in the Prometheus text format, or in that of OpenMetrics.
	Write(w io.Writer, openMetrics bool) error
}

// Options configure a Server.
type Options struct {
	Gateway Gateway
	Metrics Metrics
	Hosts   []string      // allowed Host headers besides IP addresses and localhost, lower case
	Log     *slog.Logger  // nil disables logging
	Every   time.Duration // interval between samples for the charts; 0 means 5 s

	Recent *telemetry.Recent // nil if no requests are kept
	Token  string            // required for all routes but those that are open; "" requires none

	MetricsToken bool // the token is required for metrics, too
}

// Server serves the admin routes. Create it with New.
type Server struct {
	o       Options
	http    fasthttp.Server
	history history

	instance string      // random, so that one who asks several gateways finds that two addresses are those of one
	exposed  atomic.Bool // a listener is not on a loopback address
	streams  streams

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
	s := &Server{o: o, instance: rand.Text(), conns: map[net.Conn]struct{}{}, stop: make(chan struct{}), sampled: make(chan struct{})}
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

// Serve accepts connections from ln until Close, which also closes ln. It returns nil after Close, even if Close was
// called first.
func (s *Server) Serve(ln net.Listener) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return ln.Close()
	}
	if at, err := netip.ParseAddrPort(ln.Addr().String()); err != nil || !at.Addr().Unmap().IsLoopback() {
		s.exposed.Store(true)
	}
	if s.listeners = append(s.listeners, ln); len(s.listeners) == 1 {
		go s.sampleLoop()
	}
	s.mu.Unlock()
	return s.http.Serve(ln)
}

// Close closes the listeners, waits briefly for responses in flight, and closes all connections.
func (s *Server) Close() {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.closed = true
	close(s.stop)
	sampling := len(s.listeners) > 0
	for _, ln := range s.listeners {
		// fasthttp closes it again; the error is irrelevant.
		_ = ln.Close()
	}
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
	defer cancel()
	_ = s.http.ShutdownWithContext(ctx)
	s.streams.close()
	if sampling {
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

// route is the handler for a path, and which requests it accepts.
type route struct {
	serve func(s *Server, ctx *fasthttp.RequestCtx)
	// anyHost disables the check of the Host header, because the response is harmless and probes send arbitrary hosts.
	anyHost bool
	open    bool // no token is required
	post    bool // POST is allowed as well as GET and HEAD
}

const metricsPath = "/metrics"

var routes = map[string]route{
	"/healthz":  {serve: (*Server).health, anyHost: true, open: true},
	"/readyz":   {serve: (*Server).readiness, anyHost: true, open: true},
	metricsPath: {serve: (*Server).metrics, open: true},
	"/status":   {serve: (*Server).status},
	"/usage":    {serve: (*Server).usage},
	"/budgets":  {serve: (*Server).budgets},
	"/explain":  {serve: (*Server).explain, post: true},
	"/":         {serve: (*Server).page},

	"/requests":        {serve: (*Server).requests},
	"/requests/":       {serve: (*Server).request}, // followed by an ID
	"/requests/stream": {serve: (*Server).stream},
}

// findRoute returns the route for a path.
func findRoute(path string) (r route, ok bool) {
	if r, ok = routes[path]; !ok && strings.HasPrefix(path, requestPath) {
		r, ok = routes[requestPath]
	}
	return r, ok
}

// bodyLimit returns the limit on the body of a request, which depends on its route.
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
	h.Set("x-gateway-instance", s.instance)
	path, _, _ := strings.Cut(string(ctx.Request.Header.RequestURI()), "?")
	r, ok := findRoute(path)
	switch {
	case !ok:
		respondText(ctx, fasthttp.StatusNotFound, "Not found.")
	case !ctx.IsGet() && !ctx.IsHead() && !(r.post && ctx.IsPost()):
		allowed, text := "GET, HEAD", "Only GET and HEAD are allowed."
		if r.post {
			allowed, text = "GET, HEAD, POST", "Only GET, HEAD and POST are allowed."
		}
		h.Set("allow", allowed)
		respondText(ctx, fasthttp.StatusMethodNotAllowed, text)
	case !r.anyHost && !s.allowedHost(string(ctx.Request.Header.Host())):
		respondText(ctx, fasthttp.StatusMisdirectedRequest, "Unknown host name. Use the IP address, or add the name to hosts in [admin].")
	case (!r.open || s.o.MetricsToken && path == metricsPath) && !s.authorized(ctx):
		h.Set("www-authenticate", `Basic realm="sluice", charset="UTF-8"`)
		respondText(ctx, fasthttp.StatusUnauthorized, "Token required: the value of token in [admin], as a Bearer token or as a password.")
	default:
		r.serve(s, ctx)
	}
}

// authorized reports whether a request has the token, if one is required: as a Bearer token, or as the password of Basic
// authentication with any user name, which browsers ask for.
func (s *Server) authorized(ctx *fasthttp.RequestCtx) bool {
	if s.o.Token == "" {
		return true
	}
	scheme, given, _ := strings.Cut(string(ctx.Request.Header.Peek(fasthttp.HeaderAuthorization)), " ")
	if strings.EqualFold(scheme, "basic") {
		decoded, _ := base64.StdEncoding.DecodeString(given) // the token is not empty
		_, given, _ = strings.Cut(string(decoded), ":")
	} else if !strings.EqualFold(scheme, "bearer") {
		return false
	}
	want, got := sha256.Sum256([]byte(s.o.Token)), sha256.Sum256([]byte(given))
	return subtle.ConstantTimeCompare(want[:], got[:]) == 1
}

// logPanic logs a panic without its value, which may contain secrets.
func (s *Server) logPanic(p *rescue.Error) {
	s.o.Log.Error("panic", "listener", "admin", "type", p.Type, "stack", string(p.Stack))
}

// allowedHost reports whether a request may have this Host header. It protects against DNS rebinding, in which a web
// page makes its own host name resolve to this listener, so that the browser lets it read responses as same-origin.
// That does not work with an IP address or localhost. Browsers always send a Host, so a request without one is allowed.
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
	contentType := textFormat
	// Scrapers list it first if they prefer it; what they give for the others is no reason to parse quality values.
	accepted, _, _ := strings.Cut(string(ctx.Request.Header.Peek("accept")), ";")
	if strings.EqualFold(strings.TrimSpace(accepted), "application/openmetrics-text") {
		contentType = openMetricsFormat
	}
	if err := s.o.Metrics.Write(&body, contentType == openMetricsFormat); err != nil {
		s.o.Log.Error("collecting metrics failed", "error", err)
		if body.Len() == 0 {
			respondText(ctx, fasthttp.StatusInternalServerError, "Collecting metrics failed.")
			return
		}
	}
	ctx.Response.Header.Set("vary", "accept")
	ctx.SetContentType(contentType)
	ctx.Response.SetBodyRaw(body.Bytes())
}

func (s *Server) status(ctx *fasthttp.RequestCtx) {
	page, ok := requestedPage(ctx)
	if !ok {
		respondText(ctx, fasthttp.StatusBadRequest, fmt.Sprintf("Invalid query: want page from 1, and size from 1 to %d.", maxPageSize))
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

// The content types of metrics: Prometheus' text format, and OpenMetrics.
const (
	textFormat        = "text/plain; version=0.0.4; charset=utf-8"
	openMetricsFormat = "application/openmetrics-text; version=1.0.0; charset=utf-8"
)

// respondText responds with text and a newline.
func respondText(ctx *fasthttp.RequestCtx, status int, text string) {
	ctx.SetStatusCode(status)
	ctx.SetContentType("text/plain; charset=utf-8")
	ctx.SetBodyString(text + "\n")
}

// discardLogger discards what fasthttp logs about connections.
type discardLogger struct{}

func (discardLogger) Printf(string, ...any) {}

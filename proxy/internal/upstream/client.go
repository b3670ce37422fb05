package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/upstream/credential"
)

// Timeouts bound every wait for a provider. Zero means the default given with each. Only Total can be disabled.
type Timeouts struct {
	Connect   time.Duration // connecting, including name resolution; 3 s
	TLS       time.Duration // the TLS handshake; 5 s
	Write     time.Duration // without progress while sending; 30 s
	FirstByte time.Duration // from the request's last byte to the end of the response header; 60 s
	Idle      time.Duration // without progress in the body; 60 s
	Total     time.Duration // Do and the whole body; negative disables it; 15 min
}

// Config configures a Client. New copies it.
type Config struct {
	Name       string // the provider's, for errors
	BaseURL    string // http or https, host, optional port and path
	Credential credential.Credential
	Timeouts   Timeouts
	Ticks      Ticks

	MaxConns int           // 0 means 4096
	MaxIdle  int           // maximum number of idle connections; 0 means 64
	IdleAge  time.Duration // connections that are idle for longer are closed; 0 means 50 s, below the 60 s of many providers
	MaxAge   time.Duration // older connections are not reused; 0 means 5 min. Each connection gets up to a tenth less, at random
	ConnWait time.Duration // maximum wait for a free connection when MaxConns are in use; 0 means 100 ms

	// ReadBuffer is the size of read buffers; 0 means 4 KiB. A longer response header is read into a larger buffer.
	ReadBuffer int

	TLS          *tls.Config // roots, client certificates; New fills in versions, server name, session cache and protocols
	AllowPrivate bool        // names may resolve to loopback, private and link-local addresses
	// Received says that BaseURL is not from the configuration but from a peer, such as the target of a redirect. IP
	// addresses and localhost are then checked like other names, and AllowPrivate allows only loopback and private ones.
	Received bool

	// Redactor receives the secrets that are obtained while the Client is in use; may be nil.
	Redactor *credential.Redactor
	// Now is the clock for signatures, the expiry of tokens and the age of connections and addresses; nil is time.Now.
	Now func() time.Time

	// Resolver and Dial replace the default ways to resolve names and to establish connections. Dial is responsible for
	// checking addresses.
	Resolver *net.Resolver
	Dial     func(ctx context.Context, network, address string) (net.Conn, error)
}

// Client sends requests to one provider. It is safe for concurrent use.
type Client struct {
	cfg        Config
	base       string // scheme, host and path, for errors
	scheme     string
	host       string // for the Host header
	path       string // path of the base URL, without a trailing slash
	credential *credential.Set
	tls        *tls.Config // nil for http
	connector  *connector
	pool       pool
	memory     *sync.Pool // read buffers

	staleWithin time.Duration // see defaultStaleWithin
}

// defaultStaleWithin is how soon after a request was written to a reused connection the loss of that connection means
// that it was stale: the peer had closed it before it read the request. It is longer than a round trip takes. After a
// longer time the provider has probably served the request, and may bill it.
const defaultStaleWithin = time.Second

// New returns a Client. It does not connect.
func New(cfg Config) (*Client, error) {
	c := &Client{cfg: cfg}
	c.pool.now = cfg.Now
	if c.cfg.Now == nil {
		c.cfg.Now = time.Now
	}
	host, port, err := c.parseBase()
	if err != nil {
		return nil, err
	}
	if c.credential, err = c.cfg.Credential.Prepare(c.cfg.Now, c.cfg.Redactor); err != nil {
		return nil, err
	}
	if c.tls != nil {
		if c.tls, err = newTLS(cfg.TLS, host); err != nil {
			return nil, err
		}
	}
	c.setDefaults()
	_, notLiteral := netip.ParseAddr(host)
	c.connector = newConnector(&c.cfg, host, port, notLiteral == nil)
	return c, nil
}

func (c *Client) setDefaults() {
	t := &c.cfg.Timeouts
	t.Connect = orDefault(t.Connect, 3*time.Second)
	t.TLS = orDefault(t.TLS, 5*time.Second)
	t.Write = orDefault(t.Write, 30*time.Second)
	t.FirstByte = orDefault(t.FirstByte, time.Minute)
	t.Idle = orDefault(t.Idle, time.Minute)
	if t.Total == 0 {
		t.Total = 15 * time.Minute
	}
	c.cfg.Ticks = c.cfg.Ticks.withDefaults()
	if c.cfg.ReadBuffer <= 0 {
		c.cfg.ReadBuffer = 4 << 10
	}
	c.cfg.ReadBuffer = min(max(c.cfg.ReadBuffer, 256), maxHead)
	c.memory = newMemory(c.cfg.ReadBuffer)
	c.staleWithin = defaultStaleWithin
	c.pool.max, c.pool.maxIdle = c.cfg.MaxConns, c.cfg.MaxIdle
	if c.pool.max <= 0 {
		c.pool.max = 4096
	}
	if c.pool.maxIdle <= 0 {
		c.pool.maxIdle = 64
	}
	c.cfg.MaxAge = orDefault(c.cfg.MaxAge, 5*time.Minute)
	c.pool.age = orDefault(c.cfg.IdleAge, 50*time.Second)
	c.pool.wait = orDefault(c.cfg.ConnWait, 100*time.Millisecond)
}

// parseBase parses the base URL and returns its host and port. Its errors do not quote it: it may contain a password.
func (c *Client) parseBase() (host, port string, err error) {
	u, err := url.Parse(c.cfg.BaseURL)
	switch {
	case err != nil:
		return "", "", errors.New("base URL is malformed")
	case u.Scheme != "http" && u.Scheme != "https":
		return "", "", errors.New("base URL is neither http nor https")
	case u.User != nil:
		return "", "", errors.New("base URL has user information: use the credential")
	case strings.ContainsAny(c.cfg.BaseURL, "?#"):
		return "", "", errors.New("base URL has a query or a fragment")
	case u.Hostname() == "" || u.Opaque != "":
		return "", "", errors.New("base URL has no host")
	}
	host, port = u.Hostname(), u.Port()
	for i := range len(u.Host) {
		if u.Host[i] <= ' ' || u.Host[i] >= 0x7F {
			return "", "", errors.New("base URL has a host that is not ASCII")
		}
	}
	c.path = strings.TrimRight(u.EscapedPath(), "/")
	if c.path != "" {
		if s := checkPath(c.path, ""); s != "" {
			return "", "", errors.New("base URL: " + s)
		}
	}
	usual := map[string]string{"http": "80", "https": "443"}[u.Scheme]
	if port == "" {
		port = usual
	}
	c.scheme, c.host = u.Scheme, strings.TrimSuffix(u.Host, ":")
	if port == usual {
		// Signatures do not cover the default port.
		c.host = strings.TrimSuffix(c.host, ":"+usual)
	}
	c.base = u.Scheme + "://" + c.host + c.path
	if u.Scheme == "https" {
		c.tls = &tls.Config{}
	}
	return host, port, nil
}

// Close closes idle connections. Requests in flight continue, and their connections are closed after them; new requests
// fail. A credential fetch or a name lookup in flight is canceled.
func (c *Client) Close() {
	c.pool.close()
	c.connector.close()
	c.credential.Close()
}

// RenewSecrets replaces the secrets of the credential, in the configured order, and reports whether any of them
// changed.
func (c *Client) RenewSecrets(secrets []string) (changed bool, err error) {
	return c.credential.Renew(secrets)
}

// Inherit takes over the state of the credentials (paused and replaced secrets) from an older Client for the same base
// URL. It must be called before the Client is used.
func (c *Client) Inherit(old *Client) {
	if c.base == old.base {
		c.credential.Inherit(old.credential)
	}
}

// HasSpare reports whether at most half of the maximum number of connections are in use.
func (c *Client) HasSpare() bool { return c.pool.hasSpare() }

// Stats returns the client's gauges and counters.
func (c *Client) Stats() Stats { return c.pool.snapshot() }

// Do sends a request and waits for the response header, whatever its status. w may be nil. Every error is an *Error.
//
// A request that was sent on a reused connection is sent once more on a new one if the connection was lost within a
// second and before the first byte of the response, or got a 408 that the peer sent because the connection had been
// idle: most probably the peer closed the old connection before it read the request. Request.Resender may forbid it. It is also sent on another one if something arrives before it is written
// whole, because that cannot be its response. If the provider rejects or rate-limits the credential, the request is sent
// once with each of the other credentials that the provider may accept (credential.Set). Nothing else is retried.
func (c *Client) Do(ctx context.Context, r *Request, w Watcher) (*Response, error) {
	if s := c.check(r); s != "" {
		return nil, c.requestError(&Error{Kind: BadRequest, Reason: s}, r)
	}
	now := time.Now()
	var deadline time.Time
	if c.cfg.Timeouts.Total > 0 {
		deadline = now.Add(c.cfg.Timeouts.Total)
	}
	if d := r.Deadline; !d.IsZero() && (deadline.IsZero() || d.Before(deadline)) {
		deadline = d
	}
	choice := c.credential.ChooseAccount(r.Account, r.Client)
	for {
		resp, err := c.do(ctx, r, authorization{Addition: choice.Addition()}, w, now, deadline)
		if err == nil {
			resp.account = choice.Account()
		}
		if err != nil || resp.status < 400 || r.Once || !choice.Next(resp.status, resp.retryAfter) {
			return resp, err
		}
		resp.Close()
		c.pool.count(func(s *Stats) { s.Reauthorized++ })
		now = time.Now()
	}
}

// do sends a request with one credential.
func (c *Client) do(ctx context.Context, r *Request, auth authorization, w Watcher, now, deadline time.Time) (*Response, error) {
	r.Written = false
	if c.credential.Signer() != nil {
		var err error
		if auth.signed, err = c.authorize(ctx, r, w, deadline); err != nil {
			return nil, c.requestError(err, r)
		}
	}
	cn, err := c.pool.acquire(ctx, now)
	if err != nil {
		return nil, c.requestError(err, r)
	}
	succeeded := false
	defer func() {
		// Deferred because the Watcher may panic, and the caller may recover.
		if !succeeded {
			c.pool.discard()
		}
		if !succeeded && cn != nil {
			cn.close()
		}
	}()
	for {
		if cn == nil {
			if cn, err = c.connect(ctx, w, deadline); err != nil {
				e := c.requestError(err, r)
				e.Written = r.Written
				return nil, e
			}
		}
		before := r.Written // to a connection that was lost
		resp, err := c.roundTrip(ctx, cn, r, &auth, w, deadline)
		if err == nil {
			succeeded = true
			return resp, nil
		}
		cn.close()
		r.Written = before || cn.written
		if cn.reused && !cn.answered && connLost(err) && c.mayResend(cn, r) {
			r.Written = r.Written && r.Resender == nil
			cn = c.replace(cn, now)
			continue
		}
		e := c.requestError(err, r)
		e.Written, e.Answered = r.Written, cn.answered
		return nil, e
	}
}

// mayResend reports whether a request whose reused connection was lost without a response may be sent again.
func (c *Client) mayResend(cn *conn, r *Request) bool {
	return !cn.written || time.Since(cn.writtenAt) < c.staleWithin && (r.Resender == nil || r.Resender.AllowResend())
}

// replace counts why a reused connection did not serve a request. It returns another idle one if no part of the request
// has been written, and otherwise nil, for a new one: what arrives early there can only be the request's response.
func (c *Client) replace(cn *conn, now time.Time) *conn {
	c.pool.count(func(s *Stats) {
		switch {
		case cn.phase == PhaseSend && cn.w > 0:
			s.Unsolicited++
		case cn.sending:
			s.Retried++
		default:
			s.Stale++
		}
	})
	if cn.sending {
		return nil
	}
	return c.pool.replacement(now)
}

// connLost reports whether the connection was lost, rather than closed by a timeout or the caller.
func connLost(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Kind == Unreachable
}

// authorize returns the headers with which the signer authorizes a request. The time that this takes is limited by the
// timeouts for connecting and the TLS handshake together.
func (c *Client) authorize(ctx context.Context, r *Request, w Watcher, deadline time.Time) ([]Header, error) {
	start := time.Now()
	limit := start.Add(c.cfg.Timeouts.Connect + c.cfg.Timeouts.TLS)
	if !deadline.IsZero() && deadline.Before(limit) {
		limit = deadline
	}
	headers, err := c.credential.Signer().Sign(ctx, limit, credential.Request{
		Method: r.Method, Scheme: c.scheme, Host: c.host, Base: c.basePath(r), Path: r.Path, ContentType: r.ContentType, Headers: r.Headers, Body: r.Body,
	})
	switch {
	case err == nil:
		return headers, c.tickOnce(w, start)
	case ctx.Err() != nil:
		return nil, &Error{Kind: Cancelled, Phase: PhaseConnect, Cause: context.Cause(ctx)}
	case errors.Is(err, context.DeadlineExceeded):
		return nil, &Error{Kind: NoCredential, Phase: PhaseConnect, Reason: "timed out"}
	}
	return nil, &Error{Kind: NoCredential, Phase: PhaseConnect, Cause: err}
}

// connect establishes a connection. If that took long, it calls the Watcher once, because the client may have
// disconnected and the provider charges for a request once it is sent.
func (c *Client) connect(ctx context.Context, w Watcher, deadline time.Time) (*conn, error) {
	start := time.Now()
	cn, err := c.dial(ctx, deadline)
	if err != nil {
		return nil, err
	}
	c.pool.count(func(s *Stats) { s.Dialled++ })
	if err := c.tickOnce(w, start); err != nil {
		cn.close()
		return nil, err
	}
	return cn, nil
}

// tickOnce calls the Watcher once after a long wait without ticks.
func (c *Client) tickOnce(w Watcher, start time.Time) error {
	if d := time.Since(start); w != nil && d >= c.cfg.Ticks.First {
		if err := w.Tick(PhaseConnect, d); err != nil {
			return &Error{Kind: Cancelled, Phase: PhaseConnect, Cause: err}
		}
	}
	return nil
}

// roundTrip sends a request on a connection and reads the response header. It leaves the connection open if it fails.
func (c *Client) roundTrip(ctx context.Context, cn *conn, r *Request, auth *authorization, w Watcher, deadline time.Time) (*Response, error) {
	if ctx.Err() != nil {
		return nil, &Error{Kind: Cancelled, Phase: PhaseConnect, Cause: context.Cause(ctx)}
	}
	cn.beginRequest(ctx, w, deadline)
	cn.sending = false
	cn.enterPhase(PhaseSend, c.cfg.Timeouts.Write, "write")
	sent := c.send(cn, r, auth)
	cn.written = sent == nil
	if e, ok := errors.AsType[*Error](sent); ok {
		return nil, e
	}
	if sent != nil && cn.w == 0 && cn.reused {
		_ = cn.checkSilent() // a write fails if the peer has closed the connection, after a response or without one
	}
	if sent != nil && cn.reused {
		// The provider cannot have processed the request, and what has arrived may be meant for an earlier one.
		return nil, &Error{Kind: Unreachable, Phase: PhaseSend, Cause: sent}
	}
	// On a new connection, a provider that rejects a request before reading all of it may close the connection after its
	// response. The write fails then, but the response can still be read.
	cn.answered = cn.w > 0
	if cn.written {
		cn.writtenAt, r.Written = time.Now(), true
		if r.Sent != nil {
			r.Sent()
		}
	}
	cn.enterPhase(PhaseHead, c.cfg.Timeouts.FirstByte, "first byte")
	cn.unusable = sent != nil
	h, err := cn.readHead()
	if cn.reused && cn.timedOut(h, err) {
		cn.answered, cn.written = false, false // it was rejected, if it was read at all
		return nil, &Error{Kind: Unreachable, Phase: PhaseHead, Reason: "the provider timed out the idle connection"}
	}
	if err == nil && sent != nil && h.status < 300 {
		return nil, &Error{Kind: InvalidResponse, Phase: PhaseHead, Reason: "a success before the whole request was sent"}
	}
	if err == nil {
		cn.enterPhase(PhaseBody, c.cfg.Timeouts.Idle, "idle")
		return c.newResponse(cn, r.Method, h)
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return nil, e
	}
	if _, ok := errors.AsType[tls.AlertError](err); ok {
		// With TLS 1.3, the rejection of a client certificate only shows up at the first read.
		return nil, &Error{Kind: TLS, Phase: PhaseHead, Cause: err}
	}
	switch {
	case cn.answered:
		return nil, &Error{Kind: Truncated, Phase: PhaseHead, Cause: err}
	case sent != nil && !errors.Is(sent, errEarly):
		return nil, &Error{Kind: Unreachable, Phase: PhaseSend, Cause: sent}
	}
	return nil, &Error{Kind: Unreachable, Phase: PhaseHead, Cause: err}
}

// requestError completes err, which is an *Error, with the request's details.
func (c *Client) requestError(err error, r *Request) *Error {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		e = &Error{Kind: Unreachable, Cause: err}
	}
	e.Upstream, e.Target = c.cfg.Name, c.Target(r.Method, r.Path)
	if r.FromRoot {
		path, _, _ := strings.Cut(r.Path, "?")
		e.Target = r.Method + " " + strings.TrimSuffix(c.base, c.path) + path
	}
	if e.Kind == BadRequest {
		e.Target = c.base
	}
	return e
}

// Target names a request in an error: its method, and its URL without the query, which may hold a credential.
func (c *Client) Target(method, path string) string {
	path, _, _ = strings.Cut(path, "?")
	return method + " " + c.base + path
}

// bodyError completes an error of a body with the details of the Client and the connection. cn may be nil.
func (c *Client) bodyError(e *Error, cn *conn) *Error {
	e.Upstream, e.Target, e.Written, e.Answered = c.cfg.Name, c.base, true, cn == nil || cn.answered
	return e
}

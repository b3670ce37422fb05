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

// Timeouts bound every wait for a provider. A zero value is the one named with it; none can be switched off but Total.
type Timeouts struct {
	Connect   time.Duration // one connection, names included; 3 s
	TLS       time.Duration // the handshake; 5 s
	Write     time.Duration // the provider takes nothing of the request; 30 s
	FirstByte time.Duration // from the request's last byte to the end of the answer's head; 60 s
	Idle      time.Duration // nothing comes of the body; 60 s
	Total     time.Duration // Do and the whole body; below zero is none; 15 min
}

// Config is one provider. New copies it.
type Config struct {
	Name       string // for errors
	BaseURL    string // http or https, host, perhaps a port and a path; nothing else
	Credential credential.Credential
	Timeouts   Timeouts
	Ticks      Ticks

	MaxConns int           // connections at a time; 0 is 4096
	MaxIdle  int           // of them idle; 0 is 64
	IdleAge  time.Duration // an idle one is closed after it; 0 is 50 s, below the 60 s that many providers keep
	MaxAge   time.Duration // one that is older carries no other request; 0 is 5 min. A tenth less for some, by lot
	ConnWait time.Duration // wait for a free one when there are MaxConns; 0 is 100 ms

	// ReadBuffer is the size of the buffers that answers are read through; 0 is 4 KiB. A longer head is read through a
	// larger one.
	ReadBuffer int

	TLS          *tls.Config // roots, client certificates; versions, name, session cache and protocols are filled in
	AllowPrivate bool        // names may lead to loopback, private and link-local addresses

	// Redactor learns the secrets that are obtained while the Client runs; nil: nobody does.
	Redactor *credential.Redactor
	// Now is the clock that signatures, the ends of tokens and the age of addresses are read by; nil is time.Now.
	Now func() time.Time

	// Resolver and Dial replace how names are resolved, and how connections are made. Dial is then trusted with the
	// address.
	Resolver *net.Resolver
	Dial     func(ctx context.Context, network, address string) (net.Conn, error)
}

// Client talks to one provider. It is safe for concurrent use.
type Client struct {
	cfg        Config
	base       string // scheme, host and path, for errors
	scheme     string
	host       string // of the Host header
	path       string // of the base URL, without a slash at its end
	credential credential.Prepared
	tls        *tls.Config // nil for http
	connector  *connector
	pool       pool
	memory     *sync.Pool // of buffers
}

// New checks a configuration. It does not connect.
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
	c.fillIn()
	_, notLiteral := netip.ParseAddr(host)
	c.connector = newConnector(&c.cfg, host, port, notLiteral == nil)
	return c, nil
}

func (c *Client) fillIn() {
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

// parseBase reads the base URL and returns its host and its port. Its errors do not quote it: somebody may have put a
// password there.
func (c *Client) parseBase() (host, port string, err error) {
	u, err := url.Parse(c.cfg.BaseURL)
	switch {
	case err != nil:
		return "", "", errors.New("base URL cannot be read")
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
		// Signatures are made and checked without it.
		c.host = strings.TrimSuffix(c.host, ":"+usual)
	}
	c.base = u.Scheme + "://" + c.host + c.path
	if u.Scheme == "https" {
		c.tls = &tls.Config{}
	}
	return host, port, nil
}

// Close closes the idle connections. Requests that are under way go on, and their connections are closed behind them;
// new ones fail. What is being obtained for a credential, or found out of a name, is given up.
func (c *Client) Close() {
	c.pool.close()
	c.connector.close()
	if c.credential.Signer != nil {
		c.credential.Signer.Close()
	}
}

// Stats returns the client's gauges and counters.
func (c *Client) Stats() Stats { return c.pool.snapshot() }

// Do sends a request and waits for the head of the answer, of whatever status. w may be nil. Every error is an *Error.
//
// A request that was sent on a connection that had been idle is sent once more, on a new one, where it failed before any
// byte of an answer came: then the connection had been closed in the meantime, most probably before the request was
// read. Nothing else is tried twice.
func (c *Client) Do(ctx context.Context, r *Request, w Watcher) (*Response, error) {
	if s := c.check(r); s != "" {
		return nil, c.failed(&Error{Kind: BadRequest, Reason: s}, r)
	}
	now := time.Now()
	var deadline time.Time
	if c.cfg.Timeouts.Total > 0 {
		deadline = now.Add(c.cfg.Timeouts.Total)
	}
	var authorization []Header
	if c.credential.Signer != nil {
		var err error
		if authorization, err = c.authorize(ctx, r, w, deadline); err != nil {
			return nil, c.failed(err, r)
		}
	}
	cn, err := c.pool.acquire(ctx, now)
	if err != nil {
		return nil, c.failed(err, r)
	}
	answered := false
	defer func() {
		// Also where the Watcher panics: its caller lives on.
		if !answered {
			c.pool.discard()
		}
		if !answered && cn != nil {
			cn.close()
		}
	}()
	for {
		if cn == nil {
			if cn, err = c.connect(ctx, w, deadline); err != nil {
				return nil, c.failed(err, r)
			}
		}
		resp, err := c.exchange(ctx, cn, r, authorization, w, deadline)
		if err == nil {
			answered = true
			return resp, nil
		}
		cn.close()
		if cn.reused && !cn.answered && lost(err) {
			c.pool.count(func(s *Stats) { s.Retried++ })
			cn = nil
			continue
		}
		e := c.failed(err, r)
		e.Answered = cn.answered
		return nil, e
	}
}

// lost reports that a connection was lost, and not given up.
func lost(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Kind == Unreachable
}

// authorize returns the headers of the signer for a request. The time that it takes counts as connecting.
func (c *Client) authorize(ctx context.Context, r *Request, w Watcher, deadline time.Time) ([]Header, error) {
	start := time.Now()
	limit := start.Add(c.cfg.Timeouts.Connect + c.cfg.Timeouts.TLS)
	if !deadline.IsZero() && deadline.Before(limit) {
		limit = deadline
	}
	headers, err := c.credential.Signer.Sign(ctx, limit, credential.Request{
		Method: r.Method, Scheme: c.scheme, Host: c.host, Base: c.path, Path: r.Path, ContentType: r.ContentType, Headers: r.Headers, Body: r.Body,
	})
	switch {
	case err == nil:
		return headers, c.waited(w, start)
	case ctx.Err() != nil:
		return nil, &Error{Kind: Cancelled, Phase: PhaseConnect, Cause: context.Cause(ctx)}
	case errors.Is(err, context.DeadlineExceeded):
		return nil, &Error{Kind: NoCredential, Phase: PhaseConnect, Reason: "timed out"}
	}
	return nil, &Error{Kind: NoCredential, Phase: PhaseConnect, Cause: err}
}

// connect makes a connection, and asks the Watcher once if that took long: what is dear about a request begins when it
// is sent.
func (c *Client) connect(ctx context.Context, w Watcher, deadline time.Time) (*conn, error) {
	start := time.Now()
	cn, err := c.dial(ctx, deadline)
	if err != nil {
		return nil, err
	}
	c.pool.count(func(s *Stats) { s.Dialled++ })
	if err := c.waited(w, start); err != nil {
		cn.close()
		return nil, err
	}
	return cn, nil
}

// waited asks the Watcher once after a wait that does not tick, if that was long.
func (c *Client) waited(w Watcher, start time.Time) error {
	if d := time.Since(start); w != nil && d >= c.cfg.Ticks.First {
		if err := w.Tick(PhaseConnect, d); err != nil {
			return &Error{Kind: Cancelled, Phase: PhaseConnect, Cause: err}
		}
	}
	return nil
}

// exchange sends a request on a connection and reads the answer's head. With an error the connection is still open.
func (c *Client) exchange(ctx context.Context, cn *conn, r *Request, authorization []Header, w Watcher, deadline time.Time) (*Response, error) {
	if ctx.Err() != nil {
		return nil, &Error{Kind: Cancelled, Phase: PhaseConnect, Cause: context.Cause(ctx)}
	}
	cn.begin(ctx, w, deadline)
	cn.enter(PhaseSend, c.cfg.Timeouts.Write, "write")
	sent := c.send(cn, r, authorization)
	if e, ok := errors.AsType[*Error](sent); ok {
		return nil, e
	}
	// A provider that refuses a request before it has read all of it may close the connection behind its answer. Writing
	// fails then, and the answer is there all the same.
	cn.enter(PhaseHead, c.cfg.Timeouts.FirstByte, "first byte")
	cn.spoilt = sent != nil
	h, err := cn.readHead()
	if err == nil {
		cn.enter(PhaseBody, c.cfg.Timeouts.Idle, "idle")
		return c.newResponse(cn, r.Method, h)
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return nil, e
	}
	if _, ok := errors.AsType[tls.AlertError](err); ok {
		// With TLS 1.3 a provider refuses a client certificate only now.
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

// failed makes err, which is an *Error, complete with what it was about.
func (c *Client) failed(err error, r *Request) *Error {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		e = &Error{Kind: Unreachable, Cause: err}
	}
	e.Upstream = c.cfg.Name
	path, _, _ := strings.Cut(r.Path, "?")
	e.Target = r.Method + " " + c.base + path
	if e.Kind == BadRequest {
		e.Target = c.base
	}
	return e
}

// describe makes an error of a body complete.
func (c *Client) describe(e *Error, cn *conn) *Error {
	e.Upstream, e.Target, e.Answered = c.cfg.Name, c.base, cn == nil || cn.answered
	return e
}

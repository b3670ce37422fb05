package upstream

import (
	"strings"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/sluice-gateway/sluice/proxy/internal/httpfield"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream/credential"
)

// sendBuffer is how many bytes of a request, header and body, are gathered for one write. A longer body is written from
// the caller's memory: without TLS by the same system call as the header, with TLS after the part that fits into the
// buffer.
const sendBuffer = 16 << 10

// Header is a header line of a request. Its bytes are sent unchanged.
type Header = credential.Header

// Request is a request to a provider. Host, Content-Length, Accept-Encoding, User-Agent and the credential are added to
// it. It is not retained after Do has returned.
type Request struct {
	Method      string
	Path        string // includes the query; appended to the path of Config.BaseURL byte for byte
	FromRoot    bool   // Path is the whole path instead
	Headers     []Header
	Body        []byte
	ContentType string
	Deadline    time.Time // of the response's end, if it is earlier than by Timeouts.Total; zero for none
	Accept      string
	Client      uint64             // a hash of the client, by which one of several credentials is chosen
	Account     credential.Account // the one to use, in whatever state it is; 0 leaves the choice to Client
	Sent        func()             // called when the request has been written whole, before the wait for the response; may be nil
	Once        bool               // if the provider rejects or rate-limits the secret, neither pause it nor try another one
	Resender    Resender           // may be nil

	// Written is set by Client.Do while the request has been written whole and has not been sent again: the provider may
	// have served it, and may bill it. It also applies if a Watcher panics. Afterwards it equals Error.Written.
	Written bool
}

// Resender decides whether a request is sent again that had been written whole to a reused connection, which was then
// lost. The provider may have served it, and may bill it. If AllowResend returns true, the caller has taken that into
// account, and Error.Written only concerns what is sent from then on.
type Resender interface{ AllowResend() bool }

// authorization is what a credential adds to a request.
type authorization struct {
	credential.Addition
	signed []Header
}

// reserved are the headers that Request.Headers must not contain: framing and hop-by-hop headers, headers that have
// their own field in Request, and headers that are added here.
var reserved = map[string]bool{
	"host": true, "content-length": true, "transfer-encoding": true, "connection": true, "keep-alive": true, "proxy-connection": true,
	"proxy-authorization": true, "te": true, "trailer": true, "upgrade": true, "expect": true, "cookie": true, "authorization": true,
	"content-type": true, "accept": true, "accept-encoding": true, "user-agent": true, "http2-settings": true,
}

func isReserved(name string) bool {
	var lower [24]byte
	if len(name) > len(lower) {
		return false
	}
	return reserved[string(httpfield.AppendLower(lower[:0], name))]
}

// sender is the reusable memory for building the header and the first write of a request.
type sender struct {
	header fasthttp.RequestHeader
	buf    []byte
}

var senders = sync.Pool{New: func() any { return &sender{buf: make([]byte, 0, sendBuffer)} }}

// check returns why a request cannot be sent, without quoting it, or "" if it can.
func (c *Client) check(r *Request) string {
	if !httpfield.ValidName(r.Method) {
		return "malformed method"
	}
	if len(r.Body) > 0 && (r.Method == fasthttp.MethodGet || r.Method == fasthttp.MethodHead) {
		return "a body with this method"
	}
	if s := checkPath(r.Path, c.cfg.Credential.Query); s != "" {
		return s
	}
	if !httpfield.ValidValue(r.ContentType) || !httpfield.ValidValue(r.Accept) {
		return "malformed header value"
	}
	for _, h := range r.Headers {
		if !httpfield.ValidName(h.Name) {
			return "malformed header name"
		}
		if !httpfield.ValidValue(h.Value) {
			return "malformed header value"
		}
		if isReserved(h.Name) || strings.EqualFold(h.Name, c.cfg.Credential.Header) || c.credential.Signer() != nil && c.credential.Signer().Owns(strings.ToLower(h.Name)) {
			return "a header that only the gateway sets"
		}
	}
	return ""
}

// checkPath rejects a target that could be parsed as another path or host, or that has a query parameter that could be
// taken for the credential. It returns the reason, or "".
func checkPath(target, credential string) string {
	if !strings.HasPrefix(target, "/") {
		return "the path does not start with a slash"
	}
	for i := range len(target) {
		if c := target[i]; c <= ' ' || c >= 0x7F || c == '#' || c == '\\' {
			return "the path has a byte that must be escaped"
		}
	}
	path, query, _ := strings.Cut(target, "?")
	if strings.Contains(path, "//") {
		return "the path has an empty segment"
	}
	for seg := range strings.SplitSeq(path[1:], "/") {
		if isDots(seg) {
			return "the path has a dot segment"
		}
	}
	if credential == "" {
		return ""
	}
	for member := range strings.SplitSeq(query, "&") {
		name, _, _ := strings.Cut(member, "=")
		if name == credential || strings.IndexByte(name, '%') >= 0 || strings.IndexByte(name, ';') >= 0 {
			return "a query member that the credential may use"
		}
	}
	return ""
}

// isDots reports whether a path segment is "." or "..", escaped or not.
func isDots(seg string) bool {
	n := 0
	for ; seg != ""; n++ {
		switch {
		case seg[0] == '.':
			seg = seg[1:]
		case len(seg) >= 3 && httpfield.EqualFold(seg[:3], "%2e"):
			seg = seg[3:]
		default:
			return false
		}
	}
	return n == 1 || n == 2
}

// build writes the header of a request that has been checked, and as much of the body as fits, into s.buf. It returns
// the rest of the body.
func (c *Client) build(s *sender, r *Request, auth *authorization, secure bool) (rest []byte) {
	h := &s.header
	h.Reset()
	h.DisableNormalizing()
	h.SetNoDefaultContentType(true)
	h.SetMethod(r.Method)
	h.SetHost(c.host)
	h.SetUserAgent("sluice")
	if r.ContentType != "" {
		h.SetContentType(r.ContentType)
	}
	if len(r.Body) > 0 || r.Method != fasthttp.MethodGet && r.Method != fasthttp.MethodHead {
		h.SetContentLength(len(r.Body))
	}
	// The target is assembled in the buffer that the header is written to later. fasthttp copies it in between.
	t := append(append(s.buf[:0], c.basePath(r)...), r.Path...)
	if q := auth.Query; q != "" {
		sep := byte('?')
		if strings.IndexByte(r.Path, '?') >= 0 {
			sep = '&'
		}
		t = append(append(t, sep), q...)
	}
	h.SetRequestURIBytes(t)
	if r.Accept != "" {
		h.Add("Accept", r.Accept)
	}
	h.Add("Accept-Encoding", "identity")
	for _, kv := range r.Headers {
		h.Add(kv.Name, kv.Value)
	}
	if auth.Header.Value != "" {
		h.Add(auth.Header.Name, auth.Header.Value)
	}
	for _, kv := range auth.signed {
		h.Add(kv.Name, kv.Value)
	}
	s.buf = h.AppendBytes(s.buf[:0])
	n := min(len(r.Body), max(0, sendBuffer-len(s.buf)))
	if n < len(r.Body) && !secure {
		n = 0
	}
	s.buf = append(s.buf, r.Body[:n]...)
	return r.Body[n:]
}

// basePath returns what precedes the path of a request.
func (c *Client) basePath(r *Request) string {
	if r.FromRoot {
		return ""
	}
	return c.path
}

// splitBody is the length above which a body's last lastPart bytes are written on their own, if nothing has arrived
// until then, because the write of a long body may wait for the peer.
const (
	splitBody = 64 << 10
	lastPart  = 16 << 10
)

// send writes a request. It releases its memory before the caller waits for the response, because many requests may
// wait for a long time. If something arrives before the request is written whole, it fails with errEarly.
func (c *Client) send(cn *conn, r *Request, auth *authorization) error {
	s := senders.Get().(*sender)
	rest := c.build(s, r, auth, cn.tls)
	var last []byte
	if n := len(rest) - lastPart; len(rest) > splitBody {
		rest, last = rest[:n], rest[n:]
	}
	err := cn.checkSilent()
	if err == nil {
		if cn.reused {
			c.pool.count(func(s *Stats) { s.Reused++ })
		}
		err = cn.writeRequest(s.buf, rest)
	}
	if cap(s.buf) <= 2*sendBuffer {
		senders.Put(s)
	}
	if err == nil && len(last) > 0 {
		if err = cn.checkSilent(); err == nil {
			err = cn.writeRequest(last, nil)
		}
	}
	return err
}

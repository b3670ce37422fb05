package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

// A signer authorises requests with what is computed for each of them, or was obtained over the network. Its methods are
// safe for concurrent use.
type signer interface {
	// sign returns the headers that authorise a request. They may be shared with other requests. It waits no longer than
	// ctx and limit allow. Its errors are *CredentialErrors, or those of a context.
	sign(ctx context.Context, limit time.Time, out outgoing) ([]Header, error)
	// owns reports whether a header, its name in lower case, is one that sign may return.
	owns(name string) bool
	// close ends what is under way. Whoever waits in sign is told so.
	close()
}

// outgoing is a request as it will be sent. Nothing in it may be changed.
type outgoing struct {
	*Request
	scheme string
	host   string // as in the Host header
	base   string // stands before Request.Path, byte for byte
}

// CredentialError says that a provider's credential could not be obtained. Its text is made of words of our own, names
// of files and profiles, numbers of statuses and short codes: what a token endpoint says may hold anything.
type CredentialError struct {
	Source string // "Google service account", "AWS profile prod", …
	Reason string
}

// Error is the text for the log.
func (e *CredentialError) Error() string { return e.Source + ": " + e.Reason }

// authorize returns the headers of a signer for a request. The time that it takes counts as connecting.
func (c *Client) authorize(ctx context.Context, r *Request, w Watcher, deadline time.Time) ([]Header, error) {
	start := time.Now()
	limit := start.Add(c.cfg.Timeouts.Connect + c.cfg.Timeouts.TLS)
	if !deadline.IsZero() && deadline.Before(limit) {
		limit = deadline
	}
	headers, err := c.signer.sign(ctx, limit, outgoing{Request: r, scheme: c.scheme, host: c.host, base: c.path})
	switch {
	case err == nil:
		return headers, c.waited(w, start)
	case ctx.Err() != nil:
		return nil, &Error{Kind: Cancelled, Phase: PhaseConnect, Cause: context.Cause(ctx)}
	case errors.Is(err, context.DeadlineExceeded):
		return nil, &Error{Kind: NoCredential, Phase: PhaseConnect, Reason: "it took too long to obtain"}
	}
	return nil, &Error{Kind: NoCredential, Phase: PhaseConnect, Cause: err}
}

// reason says in words that hold nothing foreign why something could not be obtained.
func reason(err error) string {
	var (
		dns   *net.DNSError
		op    *net.OpError
		file  *fs.PathError
		inURL *url.Error
		trust *tls.CertificateVerificationError
	)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	case errors.Is(err, context.Canceled):
		return "given up"
	case errors.As(err, &file):
		return file.Error()
	case errors.As(err, &dns):
		return "the name " + dns.Name + " cannot be resolved"
	case errors.As(err, &trust):
		return "the certificate is not trusted"
	case errors.As(err, &op) && op.Addr != nil:
		return fmt.Sprintf("%s %s: %v", op.Op, op.Addr, op.Err)
	case errors.As(err, &inURL):
		if inURL.Timeout() {
			return "no answer in time"
		}
		return "no answer, or none that can be read"
	}
	return "the answer cannot be used"
}

// code is a short word of a foreign answer: an error code is one, and what is not is dropped. Codes have no digits, and
// secrets mostly do.
func code(s string) string {
	const longest = 48
	if len(s) > longest || strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_.-") != "" {
		return ""
	}
	return s
}

// refusal says how a token endpoint refused.
func refusal(status int, word string) string {
	s := "refused"
	if status != 0 {
		s = fmt.Sprintf("answered %d", status)
	}
	if word = code(word); word != "" {
		s += " " + word
	}
	return s
}

const (
	// fetchTimeout bounds one attempt to obtain something, whoever waits for it or does not.
	fetchTimeout = 10 * time.Second
	// maxFetchHead is the longest head of a token endpoint's answer.
	maxFetchHead = 64 << 10
)

// fetchTransport makes connections to token endpoints. They are asked about once an hour, so none is kept. It knows of no
// proxy, as the connections to providers do not.
var fetchTransport = &http.Transport{
	DialContext:            (&net.Dialer{Timeout: 3 * time.Second}).DialContext,
	TLSHandshakeTimeout:    5 * time.Second,
	ResponseHeaderTimeout:  fetchTimeout,
	MaxResponseHeaderBytes: maxFetchHead,
	DisableKeepAlives:      true,
}

// fetcher is what one attempt asks token endpoints with. All of it ends with ctx, whatever context a library has: some
// use none.
type fetcher struct {
	ctx    context.Context
	failed atomic.Pointer[error] // of the last request that got no answer
}

// client is for a library. Redirects are not followed, for what is sent are secrets.
func (f *fetcher) client() *http.Client {
	return &http.Client{
		Transport:     f,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// RoundTrip implements http.RoundTripper.
func (f *fetcher) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	// The context of an attempt always ends, so this one does.
	context.AfterFunc(f.ctx, cancel)
	resp, err := fetchTransport.RoundTrip(r.WithContext(ctx))
	if err != nil {
		f.failed.Store(&err)
	}
	return resp, err
}

// reason is that of an error which a library made. Some of them drop the one beneath it.
func (f *fetcher) reason(err error) string {
	if f.ctx.Err() != nil {
		return reason(f.ctx.Err())
	}
	if p := f.failed.Load(); p != nil {
		return reason(*p)
	}
	return reason(err)
}

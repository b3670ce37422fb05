package credential

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

// Signer authorizes requests with headers that are computed for each request, or obtained over the network. Its methods
// are safe for concurrent use.
type Signer interface {
	// Sign returns the headers that authorize a request. They may be shared with other requests and must not be
	// changed. It waits no longer than ctx and deadline allow. Its errors are *Errors or errors of a context.
	Sign(ctx context.Context, deadline time.Time, r Request) ([]Header, error)
	// Owns reports whether Sign may return a header with that name, which is in lower case.
	Owns(name string) bool
	// Close cancels a fetch in flight and the calls of Sign that wait for it.
	Close()
}

// Request is a request as it will be sent. A Signer must not change anything in it.
type Request struct {
	Method, Scheme string
	Host           string // as in the Host header
	Base, Path     string // sent one after the other, byte for byte; Path includes the query
	ContentType    string
	Headers        []Header
	Body           []byte
}

// Error means that a credential could not be obtained. Its text consists only of the gateway's own words, names of
// files and profiles, status codes and short error codes, because the response of a token endpoint may contain
// anything.
type Error struct {
	Source string // "Google service account", "AWS profile prod", …
	Reason string
}

// Error returns the text for the log.
func (e *Error) Error() string { return e.Source + ": " + e.Reason }

// reason describes why a credential could not be obtained, without quoting external text.
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
		return "no response in time"
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.As(err, &file):
		return file.Error()
	case errors.As(err, &dns):
		return "host " + dns.Name + " cannot be resolved"
	case errors.As(err, &trust):
		return "the certificate is not trusted"
	case errors.As(err, &op) && op.Addr != nil:
		return fmt.Sprintf("%s %s: %v", op.Op, op.Addr, op.Err)
	case errors.As(err, &inURL):
		if inURL.Timeout() {
			return "no response in time"
		}
		return "no valid response"
	}
	return "invalid response"
}

// errorCode returns s if it looks like an error code, and "" otherwise. Codes have no digits, whereas most secrets do.
func errorCode(s string) string {
	const maxLength = 48
	if len(s) > maxLength || strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_.-") != "" {
		return ""
	}
	return s
}

// rejection describes an error response of a token endpoint.
func rejection(status int, code string) string {
	s := "rejected"
	if status != 0 {
		s = fmt.Sprintf("status %d", status)
	}
	if code = errorCode(code); code != "" {
		s += " " + code
	}
	return s
}

const (
	// fetchTimeout bounds one attempt to obtain a credential, whether or not a request waits for it.
	fetchTimeout = 10 * time.Second
	// maxFetchHeader bounds the header of a token endpoint's response.
	maxFetchHeader = 64 << 10
)

// fetchTransport connects to token endpoints. They are used about once an hour, so connections are not kept alive. Like
// the connections to providers, it ignores proxy settings.
var fetchTransport = &http.Transport{
	DialContext:            (&net.Dialer{Timeout: 3 * time.Second}).DialContext,
	TLSHandshakeTimeout:    5 * time.Second,
	ResponseHeaderTimeout:  fetchTimeout,
	MaxResponseHeaderBytes: maxFetchHeader,
	DisableKeepAlives:      true,
}

// fetcher is the HTTP client of one attempt. All of its requests end with ctx, whatever context a library passes,
// because some libraries pass none.
type fetcher struct {
	ctx    context.Context
	failed atomic.Pointer[error] // error of the last request that got no response
}

// httpClient returns a client for a library. It follows no redirects, since requests contain secrets.
func (f *fetcher) httpClient() *http.Client {
	return &http.Client{
		Transport:     f,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// RoundTrip implements http.RoundTripper.
func (f *fetcher) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	// f.ctx always ends, so nothing leaks.
	context.AfterFunc(f.ctx, cancel)
	resp, err := fetchTransport.RoundTrip(r.WithContext(ctx))
	if err != nil {
		f.failed.Store(&err)
	}
	return resp, err
}

// reason describes an error that a library returned. It prefers f's own errors, because some libraries drop the
// underlying error.
func (f *fetcher) reason(err error) string {
	if f.ctx.Err() != nil {
		return reason(f.ctx.Err())
	}
	if p := f.failed.Load(); p != nil {
		return reason(*p)
	}
	return reason(err)
}

// Package credential adds credentials to requests to a provider, obtains those that expire, and redacts secrets from text.
//
// A credential is a configured secret, keys for an AWS signature, or a Google token. Keys and tokens are obtained over the
// package's own connections and kept by a refresher: they are at hand without a lock, and are refreshed before they expire by one
// background goroutine, which Close waits for. The Redactor learns each secret before it is sent. No secret is in an error.
//
// It does not send requests to providers; package upstream does.
//
// Concurrency: a Signer and a Redactor are safe for concurrent use.
package credential

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/httpfield"
)

// Credential authenticates the gateway to a provider: a secret in a header or a query parameter, an AWS signature, or a Google
// token. It is one of them, or none. Formatting or marshalling it never shows a secret.
type Credential struct {
	Header string // "Authorization", "x-api-key"; "" is none
	Prefix string // "Bearer "
	Query  string // the query parameter that carries the secret, instead of a header
	Secret string
	AWS    *AWS
	Google *Google
}

// String describes where the credential is sent, without secrets.
func (c Credential) String() string {
	switch {
	case c.AWS != nil:
		return c.AWS.String()
	case c.Google != nil:
		return c.Google.String()
	case c.Secret == "":
		return "no credential"
	case c.Query != "":
		return "query " + c.Query + "=" + redacted
	}
	return c.Header + ": " + c.Prefix + redacted
}

// Format writes String for every verb: for one that does not fit strings, fmt would print the fields.
func (c Credential) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, c.String()) }

// MarshalText returns String.
func (c Credential) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// LogValue returns String.
func (c Credential) LogValue() slog.Value { return slog.StringValue(c.String()) }

// secrets returns the configured secrets.
func (c Credential) secrets() []string {
	all := []string{c.Secret}
	if c.AWS != nil {
		all = append(all, c.AWS.AccessKeyID, c.AWS.SecretAccessKey, c.AWS.SessionToken)
	}
	return all
}

// Header is a header line of a request.
type Header struct{ Name, Value string }

// Prepared is a credential ready to be added to requests: a header, a query parameter or a signer, or nothing.
type Prepared struct {
	Header Header
	Query  string // "name=value", escaped; "" is none
	Signer Signer // nil for a credential that is the same for all requests
}

// Prepare checks the credential. now is the clock that signatures and expiry times depend on. The redactor learns the secrets that
// are obtained later; it may be nil. A Signer must be closed.
func (c Credential) Prepare(now func() time.Time, redactor *Redactor) (Prepared, error) {
	kinds := 0
	for _, set := range []bool{c.Secret != "", c.AWS != nil, c.Google != nil} {
		if set {
			kinds++
		}
	}
	switch {
	case kinds == 0:
		return Prepared{}, nil
	case kinds > 1:
		return Prepared{}, errors.New("there is more than one credential")
	case c.AWS != nil:
		s, err := newAWS(*c.AWS, now, redactor)
		if err != nil {
			return Prepared{}, err
		}
		return Prepared{Signer: s}, nil
	case c.Google != nil:
		return Prepared{Signer: newGoogle(*c.Google, now, redactor)}, nil
	case (c.Header == "") == (c.Query == ""):
		return Prepared{}, errors.New("the credential needs a header or a query parameter, and not both")
	case c.Header != "" && (!httpfield.ValidName(c.Header) || !httpfield.ValidValue(c.Prefix) || !httpfield.ValidValue(c.Secret)):
		return Prepared{}, errors.New("the credential cannot be sent in a header")
	case c.Query != "":
		return Prepared{Query: url.QueryEscape(c.Query) + "=" + url.QueryEscape(c.Secret)}, nil
	}
	return Prepared{Header: Header{c.Header, c.Prefix + c.Secret}}, nil
}

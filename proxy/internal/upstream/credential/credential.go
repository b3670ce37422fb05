// Package credential adds credentials to requests to a provider, obtains those that expire, and redacts secrets from text.
//
// A credential is one or several configured secrets, keys for an AWS signature, or a Google token. Which of several secrets a request
// uses, and what becomes of one that was replaced, limited or refused, is decided by a Set. Keys and tokens are obtained over the
// package's own connections and kept by a refresher: they are at hand without a lock, and are refreshed before they expire by one
// background goroutine, which Close waits for. The Redactor learns each secret before it is sent. No secret is in an error.
//
// It does not send requests to providers; package upstream does.
//
// Concurrency: a Set, a Signer and a Redactor are safe for concurrent use.
package credential

import (
	"fmt"
	"io"
	"log/slog"
	"slices"
)

// Credential authenticates the gateway to a provider: secrets in a header or a query parameter, an AWS signature, or a Google
// token. It is one of them, or none. Formatting or marshalling it never shows a secret.
type Credential struct {
	Header string // "Authorization", "x-api-key"; "" is none
	Prefix string // "Bearer "
	Query  string // the query parameter that carries the secret, instead of a header
	// Secrets are those of one or several accounts, of which each request uses one. Empty: there is none.
	Secrets []string
	AWS     *AWS
	Google  *Google
}

// String describes where the credential is sent, without secrets.
func (c Credential) String() string {
	switch {
	case c.AWS != nil:
		return c.AWS.String()
	case c.Google != nil:
		return c.Google.String()
	case len(c.Secrets) == 0:
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
	all := slices.Clone(c.Secrets)
	if c.AWS != nil {
		all = append(all, c.AWS.AccessKeyID, c.AWS.SecretAccessKey, c.AWS.SessionToken)
	}
	return all
}

// Header is a header line of a request.
type Header struct{ Name, Value string }

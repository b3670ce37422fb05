// Package credential adds credentials to requests to a provider, obtains those that expire, and redacts secrets from
// text.
//
// A credential is one or several configured secrets, keys for an AWS signature, or a Google token. A Set decides which
// of several secrets a request uses, and what happens to a secret that was replaced, rate-limited or rejected. Keys and
// tokens are obtained over the package's own connections and cached by a refresher, which returns them without a lock
// and refreshes them before they expire in one background goroutine. Close waits for that goroutine. The Redactor
// learns each secret before it is sent. Errors never contain a secret.
//
// The package does not send requests to providers; package upstream does.
//
// Concurrency: a Set, a Signer and a Redactor are safe for concurrent use.
package credential

import (
	"fmt"
	"io"
	"log/slog"
	"slices"
)

// Credential authenticates the gateway to a provider with at most one of these: secrets in a header or a query
// parameter, an AWS signature, or a Google token. Formatting or marshalling it never shows a secret.
type Credential struct {
	Header string // header that carries the secret, such as "Authorization" or "x-api-key"; may be empty
	Prefix string // text before the secret in that header, such as "Bearer "
	Query  string // query parameter that carries the secret instead of a header
	// Secrets belong to one or several accounts. Each request uses one of them.
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

// Format writes String for every verb, because fmt prints the fields for a verb that does not apply to strings.
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

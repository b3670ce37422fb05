package upstream

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"log/slog"
	"net/url"
	"strings"
)

// Credential is what a provider knows the gateway by: a header with Prefix and Secret as its value, or a member of the
// query. None of its texts shows the secret.
type Credential struct {
	Header string // "Authorization", "x-api-key"; "" is no header
	Prefix string // "Bearer "
	Query  string // the query member that carries the secret instead of a header
	Secret string
}

const redacted = "[redacted]"

// String says where the credential goes and never what it is.
func (c Credential) String() string {
	switch {
	case c.Secret == "":
		return "no credential"
	case c.Query != "":
		return "query " + c.Query + "=" + redacted
	}
	return c.Header + ": " + c.Prefix + redacted
}

// GoString is String.
func (c Credential) GoString() string { return c.String() }

// MarshalText is String.
func (c Credential) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// LogValue is String.
func (c Credential) LogValue() slog.Value { return slog.StringValue(c.String()) }

// Redactor replaces the values of secrets in foreign text. The zero value replaces nothing. It is safe for concurrent
// use.
type Redactor struct {
	forms [][]byte
}

// minSecret is the shortest secret that is looked for: shorter ones would turn ordinary text into holes.
const minSecret = 6

// NewRedactor finds the secrets as they are, and as they look base64-encoded on their own, in hexadecimal, escaped for a
// URL and inside a JSON string.
func NewRedactor(secrets ...string) *Redactor {
	r := &Redactor{}
	for _, s := range secrets {
		if len(s) < minSecret {
			continue
		}
		for _, f := range []string{
			s, url.QueryEscape(s), url.PathEscape(s), hex.EncodeToString([]byte(s)),
			base64.RawStdEncoding.EncodeToString([]byte(s)), base64.RawURLEncoding.EncodeToString([]byte(s)),
			strings.NewReplacer(`\`, `\\`, `"`, `\"`, `/`, `\/`).Replace(s), strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s),
		} {
			r.add([]byte(f))
		}
	}
	return r
}

// Redactor finds the credential's secret.
func (c Credential) Redactor() *Redactor { return NewRedactor(c.Secret) }

func (r *Redactor) add(form []byte) {
	for _, f := range r.forms {
		if bytes.Equal(f, form) {
			return
		}
	}
	r.forms = append(r.forms, form)
}

// Redact returns p without the secrets. It is p itself where none is in it, and a new slice otherwise.
func (r *Redactor) Redact(p []byte) []byte {
	if r == nil {
		return p
	}
	for _, f := range r.forms {
		if bytes.Contains(p, f) {
			p = bytes.ReplaceAll(p, f, []byte(redacted))
		}
	}
	return p
}

package config

import (
	"net/url"
	"slices"
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/httpfield"
)

// auth reads the credential. Without the table none is sent. A credential that is empty or cannot be found turns the provider off.
func (l *loader) auth(t *table, p *Provider, defaults Auth) {
	a := t.table("auth")
	if !a.exists() {
		return
	}
	cloud := ""
	for _, name := range []string{"aws", "google"} {
		switch n := a.look(name); {
		case n == nil:
		case cloud != "":
			a.fail(n, name, "set %s or %s, not both", cloud, name)
		default:
			cloud = name
		}
	}
	off := ""
	switch cloud {
	case "aws":
		off = l.aws(&a, p)
	case "google":
		off = l.google(&a, p)
	default:
		off = l.secretAuth(&a, p, defaults)
	}
	if cloud != "" {
		for _, name := range []string{"header", "prefix", "query", "secret"} {
			if n := a.look(name); n != nil {
				l.credential(n)
				a.fail(n, name, "cannot be combined with %s", cloud)
			}
		}
	}
	if p.Off == "" {
		p.Off = off
	}
	a.finish()
}

// secretAuth reads a secret and how it is sent.
func (l *loader) secretAuth(a *table, p *Provider, defaults Auth) (off string) {
	header, h := a.text("header")
	query, q := a.text("query")
	prefix, x := a.text("prefix")
	switch {
	case h != nil && q != nil:
		a.fail(q, "query", "set header or query, not both")
	case h != nil:
		if err := checkCredentialHeader(header); err != nil {
			a.fail(h, "header", "%s: %v", show(h), err)
		}
		p.Auth.Header = header
		if strings.EqualFold(header, "authorization") {
			p.Auth.Prefix = "Bearer "
		}
	case q != nil:
		if query == "" || url.QueryEscape(query) != query {
			a.fail(q, "query", "%s is not a valid query parameter name", show(q))
		}
		p.Auth.Query = query
	case defaults.Header != "":
		p.Auth = defaults
	default:
		p.Auth = Auth{Header: "Authorization", Prefix: "Bearer "}
	}
	if x != nil {
		if q != nil {
			a.fail(x, "prefix", "applies to a header, not to a query parameter")
		}
		for _, c := range []byte(prefix) {
			if c < ' ' || c >= 0x7f {
				a.fail(x, "prefix", "must have only printable ASCII characters")
				break
			}
		}
		p.Auth.Prefix = prefix
	}
	secret, n := l.secretKey(a, "secret")
	switch {
	case n == nil && !a.has("secret"):
		a.fail(nil, "secret", `is missing; omit auth if no credential is needed`)
	case n != nil && secret == "":
		off = n.unset("auth.secret")
	}
	p.Auth.Secret = secret
	return off
}

// secretKey reads a key that is a credential or part of one.
func (l *loader) secretKey(t *table, name string) (Secret, *node) {
	secret, n := t.text(name)
	if n == nil {
		return "", nil
	}
	l.credential(n)
	if err := checkSecret(secret); err != nil {
		t.fail(n, name, "%v", err)
	}
	return Secret(secret), n
}

func checkCredentialHeader(s string) error {
	lower := strings.ToLower(s)
	if !httpfield.ValidName(s) {
		return rule("is not a valid header name")
	}
	if lower != "authorization" && lower != "cookie" && lower != "proxy-authorization" && slices.Contains(reservedHeaders, lower) {
		return rule("a credential cannot be sent in this header")
	}
	return nil
}

package config

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/httpfield"
)

// maxSecrets limits the number of secrets of a provider.
const maxSecrets = 64

// auth reads the table auth. Without it, no credential is sent. A credential that is empty or cannot be found turns the
// provider off.
func (l *loader) auth(t *table, p *Provider, defaults Auth) {
	a := t.table("auth")
	if !a.exists() {
		return
	}
	cloud := ""
	for _, name := range []string{"aws", "google"} {
		switch n := a.lookUp(name); {
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
		for _, name := range []string{"header", "prefix", "query", "secret", "secrets"} {
			if n := a.lookUp(name); n != nil {
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

// privateNames are suffixes of host names that are not in the public DNS, or that are reserved (RFC 6761, 6762, 8375,
// 9476).
var privateNames = []string{
	".local", ".localhost", ".internal", ".intranet", ".private", ".corp", ".home", ".lan", ".home.arpa", ".alt", ".svc", ".test", ".example", ".invalid",
}

// isPublic reports whether a host is on the public internet, where an API needs a credential.
func isPublic(host string) bool {
	if ip, err := netip.ParseAddr(host); err == nil {
		private, closed := privateHost(host)
		return ip.IsGlobalUnicast() && !private && !closed
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return strings.Contains(host, ".") && !slices.ContainsFunc(privateNames, func(end string) bool { return strings.HasSuffix(host, end) })
}

// isPublicURL reports whether the host of a URL is on the public internet.
func isPublicURL(base string) bool {
	u, err := url.Parse(base)
	return err == nil && isPublic(u.Hostname())
}

// missingAuth warns about a provider on the public internet without a credential.
func missingAuth(t *table, p *Provider) {
	u, err := url.Parse(p.BaseURL)
	if err == nil && p.Off == "" && !t.has("auth") && !p.AllowPrivate && isPublic(u.Hostname()) {
		t.warn(nil, "auth", "is missing: requests to %s are sent without a credential", u.Hostname())
	}
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
	p.Auth.Secrets, off = l.providerSecrets(a)
	return off
}

// providerSecrets reads the secret or the secrets of a provider. Empty ones are left out. off is the reason if none is
// left.
func (l *loader) providerSecrets(a *table) (secrets []FileSecret, off string) {
	one, several := a.lookUp("secret"), a.lookUpKind("secrets", kindArray)
	where := a.path.child("secrets")
	nodes := []*node{one}
	switch {
	case several != nil && one != nil:
		a.fail(several, "secrets", "set secret or secrets, not both")
		return nil, ""
	case one != nil:
	case several == nil:
		if !a.has("secrets") {
			a.fail(nil, "secret", `is missing; omit auth if no credential is needed`)
		}
		return nil, ""
	case len(several.items) > maxSecrets:
		a.fail(several, "secrets", "has more than %d elements", maxSecrets)
		return nil, ""
	default:
		nodes = several.items
		off = "auth.secrets is empty"
	}
	for i, n := range nodes {
		at := where.element(i)
		if one != nil {
			at = a.path.child("secret")
		}
		secret, value := l.secretValue(&at, n)
		switch {
		case value == nil: // already reported
		case secret.Secret == "":
			off = value.whyEmpty("auth." + strings.TrimPrefix(at.String(), a.path.String()+"."))
		case slices.ContainsFunc(secrets, func(s FileSecret) bool { return s.Secret == secret.Secret }):
			l.d.warn(n.offset, at.String(), "is the same as another one")
		default:
			l.looksLikeSecret(&at, value, "")
			secrets = append(secrets, secret)
		}
	}
	if len(secrets) > 0 {
		off = ""
	}
	return secrets, off
}

// secretKey reads a key that is a credential or part of one.
func (l *loader) secretKey(t *table, name string) (FileSecret, *node) {
	n := t.lookUp(name)
	if n == nil {
		return FileSecret{}, nil
	}
	where := t.path.child(name)
	return l.secretValue(&where, n)
}

// secretValue reads a secret from a string, or from the file that a table names. It returns the node with the text, or
// nil if it has reported the value.
func (l *loader) secretValue(where *keyPath, n *node) (FileSecret, *node) {
	return l.secretText(where, n, checkSecret)
}

// secretText is secretValue for a secret that check accepts.
func (l *loader) secretText(where *keyPath, n *node, check func(string) error) (FileSecret, *node) {
	secret := FileSecret{}
	switch n.kind {
	case kindBroken:
		return secret, nil
	case kindString:
	case kindTable:
		t := table{d: l.d, n: n, path: where}
		file, f := t.required("file")
		t.finish()
		if f == nil {
			return secret, nil
		}
		secret.File = l.relative(f, file)
		text, err := readSecret(l.o.ReadFile, secret.File)
		if err != nil {
			t.fail(f, "file", "%v", err)
			return secret, nil
		}
		n = &node{kind: kindString, offset: f.offset, text: text}
	default:
		l.d.fail(n.offset, where.String(), "must be a string, or a table such as { file = %q }, not %s", "FILE", n.kind.description())
		return secret, nil
	}
	l.credential(n)
	if err := check(n.text); err != nil {
		l.d.fail(n.offset, where.String(), "%v", err)
	}
	secret.Secret = Secret(n.text)
	return secret, n
}

// readSecret reads a secret from a file, without leading and trailing white space. Its errors do not contain the
// secret.
func readSecret(read func(string) ([]byte, error), file string) (string, error) {
	data, err := read(file)
	if err != nil {
		return "", err
	}
	text := string(bytes.TrimSpace(data))
	if text == "" {
		return "", invalid("the file %s is empty", file)
	}
	return text, nil
}

// FromFile reports whether a secret comes from a file.
func (a *Auth) FromFile() bool {
	return slices.ContainsFunc(a.Secrets, func(s FileSecret) bool { return s.File != "" })
}

// Reread reads the secrets that come from files again, and returns all secrets in their order.
func (a *Auth) Reread() ([]Secret, error) {
	all := make([]Secret, 0, len(a.Secrets))
	for _, s := range a.Secrets {
		if s.File != "" {
			text, err := readSecret(readCredentialFile, s.File)
			if err == nil {
				err = checkSecret(text)
			}
			if err != nil {
				return nil, err
			}
			s.Secret = Secret(text)
		}
		all = append(all, s.Secret)
	}
	return all, nil
}

// looksLikeSecret warns about a value that was probably not meant as a secret, without quoting it. hint is appended to
// the warning about a digest.
func (l *loader) looksLikeSecret(where *keyPath, n *node, hint string) {
	switch {
	case strings.HasPrefix(n.text, "$") && variableName(n.text[1:]) && n.text == strings.ToUpper(n.text):
		l.d.warn(n.offset, where.String(), "starts with $ and is used as it is; a variable is written ${NAME}")
	case isDigest(n.text):
		l.d.warn(n.offset, where.String(), "is a digest, and the secret itself is needed%s", hint)
	}
}

// isDigest reports whether a text has the form of a key's digest.
func isDigest(text string) bool {
	number, ok := strings.CutPrefix(text, "sha256:")
	sum, err := hex.DecodeString(number)
	return ok && err == nil && len(sum) == sha256.Size
}

func checkCredentialHeader(s string) error {
	lower := strings.ToLower(s)
	if !httpfield.ValidName(s) {
		return invalid("is not a valid header name")
	}
	if lower != "authorization" && lower != "cookie" && lower != "proxy-authorization" && slices.Contains(reservedHeaders, lower) {
		return invalid("a credential cannot be sent in this header")
	}
	return nil
}

package config

import (
	"crypto/x509"
	"net"
	"slices"

	"github.com/sluice-gateway/sluice/proxy/internal/oci"
)

// Registry is an entry of [registries]: how plugins are pulled from a registry.
type Registry struct {
	Name         string         // host or host:port, as in references
	Username     string         // "" for anonymous access
	Secret       FileSecret     // password or token; not empty if Username is not
	Mirrors      []string       // registries to pull from first
	PlainHTTP    bool           // HTTP instead of HTTPS
	CA           string         // file with the certificates that verify the registry's certificate; "" for those of the system
	Roots        *x509.CertPool // the certificates in CA; nil for those of the system
	AllowPrivate bool           // the registry, and hosts that it names, may have private and loopback addresses
	Pos          Position
}

// Registry returns how to pull from the registry with that name. A registry without an entry is accessed anonymously.
func (c *Config) Registry(name string) Registry {
	if i := slices.IndexFunc(c.Registries, func(r Registry) bool { return r.Name == name }); i >= 0 {
		return c.Registries[i]
	}
	private, _ := privateHost(oci.Host(name))
	return Registry{Name: name, PlainHTTP: plainHTTP(name), AllowPrivate: private}
}

// plainHTTP reports whether a registry is accessed by HTTP unless configured otherwise, because it is on this machine.
func plainHTTP(registry string) bool { return loopback(net.JoinHostPort(oci.Host(registry), "0")) }

func (l *loader) registries(t table) {
	if t.n == nil {
		return
	}
	for _, m := range t.n.names {
		e := t.table(m.name)
		if e.n == nil {
			continue
		}
		r := Registry{Name: m.name, Pos: e.position()}
		if err := oci.CheckRegistry(m.name); err != nil {
			path := t.path.child(m.name)
			l.d.fail(int(m.offset), path.String(), "%v", err)
		}
		auth := e.table("auth")
		if auth.exists() {
			r.Username, _ = auth.required("username")
			before := len(l.d.errs)
			secret, n := l.secretKey(&auth, "secret")
			if l.o.PluginsOnly {
				l.d.errs = l.d.errs[:before] // its file may be missing
			}
			if n == nil && !auth.has("secret") {
				auth.fail(nil, "secret", "is missing; omit auth for anonymous access")
			}
			if r.Secret = secret; secret.Secret == "" {
				r.Username = "" // an optional variable is not set
			}
			auth.finish()
		}
		elements, _ := e.strings("mirrors")
		for _, n := range elements {
			if err := oci.CheckRegistry(n.text); err != nil {
				e.fail(n, "mirrors", "%s: %v", show(n), err)
			}
			r.Mirrors = append(r.Mirrors, n.text)
		}
		private, closed := privateHost(oci.Host(m.name))
		r.PlainHTTP = e.bool("plain_http", plainHTTP(m.name))
		r.AllowPrivate = e.bool("allow_private", private)
		if closed && !e.has("allow_private") {
			e.fail(nil, "allow_private", "is missing: the address is link-local, multicast or unspecified; set allow_private = true if that is intended")
		}
		if r.PlainHTTP && !private && r.Username != "" {
			e.warn(nil, "plain_http", "the credential is sent without encryption")
		}
		l.registryCA(&e, &r)
		e.finish()
		l.cfg.Registries = append(l.cfg.Registries, r)
	}
}

// registryCA reads the file with the certificate authority of a registry.
func (l *loader) registryCA(t *table, r *Registry) {
	name, n := t.text("ca")
	if name == "" {
		return
	}
	r.CA = l.relative(n, name)
	data, err := l.o.ReadFile(r.CA)
	if err == nil {
		err = checkCertificate(data)
	}
	switch {
	case err != nil && l.o.PluginsOnly: // the file may be missing
	case err != nil:
		t.fail(n, "ca", "%s: %v", show(n), withoutPath(err))
	case r.PlainHTTP:
		t.fail(n, "ca", "can never apply: plain_http is true")
	default:
		r.Roots = x509.NewCertPool()
		r.Roots.AppendCertsFromPEM(data)
	}
}

// pluginReference reads a plugin's file that is a reference.
func (l *loader) pluginReference(t *table, at *node, p *Plugin) {
	if n := t.lookUp("sha256"); n != nil {
		t.fail(n, "sha256", "applies to a file on disk; a reference ends with its digest")
	}
	r, err := oci.ParseReference(at.text)
	switch {
	case err != nil:
		t.fail(at, "file", "%s: %v", show(at), err)
		return
	case r.Digest == "":
		l.failTag(t, at, r)
	}
	p.File, p.Reference = r.String(), r
}

// failTag reports a reference by tag, with the digest that it names now if it can be looked up.
func (l *loader) failTag(t *table, at *node, r oci.Reference) {
	const moves = "%s names a tag, which the registry can move to another plugin: want a digest"
	if l.o.ResolveTag == nil {
		t.fail(at, "file", moves+"; `sluice check` looks it up", show(at))
		return
	}
	digest, err := l.o.ResolveTag(l.cfg, r.String())
	if err != nil {
		t.fail(at, "file", moves+"; it cannot be looked up: %v", show(at), err)
		return
	}
	r.Digest = oci.Digest(digest)
	t.fail(at, "file", moves+"; for the plugin that it names now: file = %q", show(at), r.String())
}

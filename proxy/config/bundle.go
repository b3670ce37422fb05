package config

import (
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/oci"
)

// Bundle is the table [bundle]: where a node gets the part of its configuration that it shares with other nodes.
type Bundle struct {
	Source      oci.Reference // names the rollout by tag
	Keys        []string      // public keys of minisign that may sign
	Every       time.Duration // between two looks at the source
	Name        string        // of the node in stages; "" for the name of the host
	Tags        []string      // of the node in stages
	Trial       time.Duration // how long a new bundle is on trial
	MinRequests int64         // requests of a trial without which it neither fails nor ends
	MaxErrors   float64       // largest increase of the share of failed requests
	MaxRatio    float64       // largest increase of the cost of a request, and of the time to its first event, as a factor
	Secrets     []BundleSecret
	Digest      string // of the bundle that the configuration contains; "" for none
}

// BundleSecret is an entry of [bundle.secrets]: a credential of the node that bundles may name.
type BundleSecret struct {
	Name  string
	File  string   // "" for the environment variable Name
	Hosts []string // hosts of providers that it may be sent to
}

// BundleText is the text of a bundle.
type BundleText struct {
	Name    string // in errors
	Digest  string
	Content []byte
}

// bundleKeys are the keys that a bundle sets. All others are the node's own.
var bundleKeys = []string{"teams", "keys", "issuers", "identities", "plugins", "providers", "router", "models", "filters"}

// The names in [bundle.secrets] under which the credentials of a cloud are bound to hosts.
var cloudSecrets = []string{"aws", "google"}

// bundle reads [bundle], and adds the contents of the bundle to the root table.
func (l *loader) bundle(root *table) {
	t := root.table("bundle")
	if !t.exists() {
		return
	}
	b := &Bundle{}
	l.cfg.Bundle = b
	if source, n := t.required("source"); n != nil {
		r, err := oci.ParseReference(source)
		switch {
		case err != nil:
			t.fail(n, "source", "%s: %v", show(n), err)
		case r.Digest != "" || r.Tag == "":
			t.fail(n, "source", `%s must be a tag without a digest, such as "oci://registry.example.com/acme/fleet:prod"`, show(n))
		}
		b.Source = r
	}
	b.Keys = t.texts("keys")
	if len(b.Keys) == 0 {
		t.fail(nil, "keys", "is missing: a bundle is only accepted with the signature of one of these keys")
	}
	b.Every = t.duration("every", 15*time.Second, time.Second, 24*time.Hour)
	if name, n := t.text("name"); n != nil {
		if err := checkName(name); err != nil {
			t.fail(n, "name", "%s: %v", show(n), err)
		}
		b.Name = name
	}
	b.Tags = t.texts("tags")
	b.Trial = t.duration("trial", 5*time.Minute, 0, 24*time.Hour)
	b.MinRequests = t.integer("min_requests", 20, 0, 1e9)
	b.MaxErrors = t.share("max_errors", 0.05)
	b.MaxRatio = float64(t.integer("max_ratio", 3, 2, 1000))
	values := l.bundleSecrets(t.table("secrets"), b)
	t.finish()
	if l.o.Bundle == nil || len(l.d.errs) > 0 {
		return // the bundle is not needed to report the errors
	}
	text, err := l.o.Bundle(l.cfg)
	if err != nil {
		t.fail(nil, "", "%v", err)
		return
	}
	if text == nil {
		return
	}
	b.Digest = text.Digest
	l.mergeBundle(root, text, values)
}

// bundleSecrets reads [bundle.secrets] and returns the values of the secrets that are set.
func (l *loader) bundleSecrets(t table, b *Bundle) map[string]string {
	values := map[string]string{}
	if !t.exists() {
		return values
	}
	for _, m := range t.n.names {
		e := t.table(m.name)
		if e.n == nil {
			continue
		}
		s := BundleSecret{Name: m.name, Hosts: e.texts("hosts")}
		cloud := slices.Contains(cloudSecrets, m.name)
		if !variableName(m.name) {
			l.d.fail(int(m.offset), e.path.String(), "must be the name of a variable")
		}
		if len(s.Hosts) == 0 {
			e.fail(nil, "hosts", `is missing: the hosts that it may be sent to, such as ["api.openai.com"]`)
		}
		value, set := l.o.Env(m.name)
		if file, n := e.text("file"); n != nil {
			if cloud {
				e.fail(n, "file", "does not apply to credentials of a cloud")
			}
			s.File = l.relative(n, file)
			secret, err := readSecret(l.o.ReadFile, s.File)
			if err != nil {
				e.fail(n, "file", "%v", err)
			}
			value, set = secret, err == nil
		}
		e.finish()
		if set && !cloud {
			values[m.name] = value
		}
		b.Secrets = append(b.Secrets, s)
	}
	return values
}

// mergeBundle reads a bundle and adds its contents to the root table, in which nothing else may set them.
func (l *loader) mergeBundle(root *table, text *BundleText, values map[string]string) {
	env := l.d.env
	l.d.env = func(name string) (string, bool) {
		value, ok := values[name]
		return value, ok
	}
	if l.o.publishing {
		l.d.env = env
	}
	l.d.begin(text.Name, text.Content)
	tree, complete := l.d.read()
	l.d.env = env
	if !complete {
		return
	}
	l.checkBundle(tree, &keyPath{})
	for i := range tree.names {
		m := &tree.names[i]
		where := (&keyPath{}).child(m.name)
		switch own := root.n.member(m.name); {
		case !slices.Contains(bundleKeys, m.name):
			l.d.fail(int(m.offset), where.String(), "is set by each node itself: a bundle has only %s", alternatives(bundleKeys))
		case own != nil:
			l.d.fail(int(own.offset), where.String(), "is set by the bundle: a node with a bundle cannot set it too")
		default:
			l.d.add(root.n, m.name, int(m.offset), m.value)
		}
	}
	l.d.reportUnset()
}

// checkBundle checks that a bundle names no files, and secrets only where they are bound to hosts.
func (l *loader) checkBundle(n *node, where *keyPath) {
	pattern := where.pattern()
	auth := strings.HasPrefix(pattern, "providers.*.auth.")
	switch vars := n.vars(); {
	case len(vars) == 0:
	case !auth:
		l.d.dropUnset(n)
		l.d.fail(n.offset, where.String(), "a bundle can name a variable only in the auth of a provider")
	case n.kind == kindBroken:
		l.d.dropUnset(n)
		for _, v := range vars {
			if l.bundleSecret(v.name) == nil {
				l.d.fail(n.offset, where.String(), "%s is not in [bundle.secrets] of this node, which says where it may be sent", v.name)
			} else if !v.set {
				l.d.fail(n.offset, where.String(), "%s is not set on this node", v.name)
			}
		}
	}
	for i, e := range n.items {
		element := where.element(i)
		l.checkBundle(e, &element)
	}
	for i := range n.names {
		m := &n.names[i]
		child := where.child(m.name)
		switch pattern := child.pattern(); {
		case pattern == "plugins.*.file" && m.value.kind == kindString && oci.IsReference(m.value.text):
		case strings.Contains("."+pattern+".", ".options."):
		case m.name == "file", strings.HasPrefix(pattern, "providers.*.auth.") && (m.name == "profile" || m.name == "metadata"):
			l.d.fail(int(m.offset), child.String(), "a bundle cannot name what is on the node's disk or network; plugins are named by oci://… with a digest")
		}
		l.checkBundle(m.value, &child)
	}
}

func (l *loader) bundleSecret(name string) *BundleSecret {
	if i := slices.IndexFunc(l.cfg.Bundle.Secrets, func(s BundleSecret) bool { return s.Name == name }); i >= 0 {
		return &l.cfg.Bundle.Secrets[i]
	}
	return nil
}

// checkSecretHosts checks that the providers of a bundle send each secret only to its hosts. It is called when the
// providers have been read, since a preset may set the address.
func (l *loader) checkSecretHosts(providers table) {
	if l.cfg.Bundle == nil || l.cfg.Bundle.Digest == "" || l.o.publishing || providers.n == nil {
		return
	}
	for i := range providers.n.names {
		m := &providers.n.names[i]
		p, auth := l.cfg.Provider(m.name), m.value.member("auth")
		if p == nil || p.BaseURL == "" || auth == nil {
			continue
		}
		u, err := url.Parse(p.BaseURL)
		if err != nil {
			continue
		}
		names := variablesIn(auth.value, nil)
		for _, cloud := range cloudSecrets {
			if auth.value.member(cloud) != nil {
				names = append(names, cloud)
			}
		}
		for _, name := range names {
			if s := l.bundleSecret(name); s == nil || !slices.ContainsFunc(s.Hosts, func(h string) bool { return strings.EqualFold(h, u.Hostname()) }) {
				path := providers.path.child(m.name)
				where := path.child("auth")
				l.d.fail(int(auth.offset), where.String(), "%s may not be sent to %s: see hosts in [bundle.secrets.%s] of this node", name, u.Hostname(), name)
			}
		}
	}
}

// variablesIn returns the names of the variables that are set in a value.
func variablesIn(n *node, names []string) []string {
	for _, v := range n.vars() {
		if v.set {
			names = append(names, v.name)
		}
	}
	for _, e := range n.items {
		names = variablesIn(e, names)
	}
	for i := range n.names {
		names = variablesIn(n.names[i].value, names)
	}
	return names
}

// NodeName returns the name of the node in stages.
func (b *Bundle) NodeName() string {
	if b.Name != "" {
		return b.Name
	}
	name, _ := os.Hostname()
	return name
}

// CheckBundle parses the text of a bundle for no particular node: its secrets count as set, and as bound to the hosts that
// it sends them to. name is the file in errors. The error is an Errors.
func CheckBundle(name string, content []byte, o Options) (*Config, error) {
	o.Env = func(string) (string, bool) { return "placeholder-0123456789", true }
	o.Bundle = func(*Config) (*BundleText, error) { return &BundleText{Name: name, Content: content}, nil }
	o.publishing = true
	return Parse(name, []byte("bundle = { source = \"oci://localhost/a:a\", keys = [\"\"] }\n"), o)
}

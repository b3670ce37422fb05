package config

import (
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/httpfield"
)

func (l *loader) providerTables(t table) {
	for _, e := range t.entries() {
		l.provider(e.name, &e.table)
	}
}

func (l *loader) provider(name string, t *table) {
	p := Provider{Name: name, Pos: t.position()}
	plugin, set, known := l.preset(t)
	p.Plugin = plugin
	for _, m := range []string{"file", "sha256"} {
		if t.has(m) {
			t.fail(t.lookUp(m), m, "declare the file in [plugins.NAME], and refer to it with plugin = %q", "NAME")
		}
	}
	if !t.bool("enabled", true) {
		p.Off = "enabled is false"
	}
	l.auth(t, &p, set.auth)
	l.baseURL(t, &p, set.baseURL, known && !set.local)
	if p.BaseURL == set.baseURL && set.options == nil {
		set.options = set.standard
	}
	// Nothing is known about an upstream at another address than the default.
	p.CachesPrompts = t.bool("caches_prompts", set.caches && (t.has("preset") || !t.has("base_url") || p.BaseURL == set.baseURL))
	p.SharedObjects = t.bool("shared_objects", false)
	p.Trace = t.bool("trace", p.BaseURL != "" && !isPublicURL(p.BaseURL))
	missingAuth(t, &p)
	timeouts(t, &p.Timeout)
	p.Heartbeat = t.duration("heartbeat", l.cfg.Server.Heartbeat, 0, hour)
	p.Pace = t.duration("pace", 0, 0, time.Second)
	if p.Pace > 0 && p.BaseURL != "" {
		t.fail(t.lookUp("pace"), "pace", "is only for plugins that respond without an upstream; this provider has a base_url")
	}
	breaker(t, &p.Breaker)
	p.RetryBudget = t.share("retry_budget", 0.2)
	l.listModels(t, &p)
	probe(t, &p)
	direct := t.bool("direct", true)
	p.ListModels.Direct, p.Direct = direct && p.ListModels.Enabled, direct && t.has("direct")
	p.Paths = slices.Clone(set.paths)
	if elements, there := t.strings("paths"); there {
		p.Paths = nil
		for _, e := range elements {
			if err := checkPath(e.text); err != nil {
				t.fail(e, "paths", "%s: %v", show(e), err)
			}
			p.Paths = append(p.Paths, e.text)
		}
	}
	if p.BaseURL != "" && p.Plugin != "" && len(p.Paths) == 0 {
		t.fail(nil, "paths", "is missing: the plugin %q needs at least one path", p.Plugin)
	}
	p.Headers = slices.Clone(set.headers)
	if elements, there := t.strings("headers"); there {
		p.Headers = nil
		for _, e := range elements {
			if err := checkPluginHeader(e.text, p.Auth.Header); err != nil {
				t.fail(e, "headers", "%s: %v", show(e), err)
			}
			p.Headers = append(p.Headers, strings.ToLower(e.text))
		}
	}
	p.MaxConns = int(t.integer("max_conns", defaultMaxConns, 1, 1<<20))
	p.MaxEvent = int(t.size("max_event", 1<<20, 1<<10, 32<<20))
	l.checkAddress(t, &p, set.baseURL)
	p.Limits, p.Budgets = l.bounds(t, "provider", name)
	options := t.table("options")
	all := set.options.over(l.pluginOptions[p.Plugin]).over(options.free())
	p.Options = all.raw()
	p.Free, p.PriceLists = set.local, set.prices
	for _, f := range all {
		if lists := set.clouds[strings.Trim(string(f.json), `"`)]; f.name == "api" && lists != nil {
			p.PriceLists = lists
		}
	}
	l.checkLater(t, "options", p.Plugin, false)
	t.finish()
	if p.Off == "" {
		l.requireLater(t, p.Plugin, all)
		l.use(p.Plugin)
	}
	l.providerOptions[name] = all
	l.providers[name] = len(l.cfg.Providers)
	l.cfg.Providers = append(l.cfg.Providers, p)
}

// baseURL reads base_url and allow_private. An empty base_url turns the provider off. A missing one is an error if the
// plugin needs it and there is no default.
func (l *loader) baseURL(t *table, p *Provider, defaultURL string, needed bool) {
	raw, n := t.text("base_url")
	if !t.has("base_url") {
		if raw = l.defaultURL(p, defaultURL); raw != "" {
			n = &node{kind: kindString, offset: t.offset(nil), text: raw}
		}
	}
	private, given := false, t.lookUpKind("allow_private", kindBool)
	switch {
	case n == nil && t.has("base_url") || n == nil && !needed:
	case n == nil && defaultURL != "":
		t.fail(nil, "base_url", "is missing: there is no default for this kind of credential")
	case n == nil:
		t.fail(nil, "base_url", "is missing")
	case raw == "":
		if p.Off == "" {
			p.Off = n.whyEmpty("base_url")
		}
	default:
		u, err := checkBaseURL(raw)
		if err != nil {
			t.fail(n, "base_url", "%s: %v", show(n), err)
			break
		}
		p.BaseURL = strings.TrimRight(raw, "/")
		var closed bool
		private, closed = privateHost(u.Hostname())
		switch {
		case closed && given == nil:
			t.fail(n, "base_url", "%s: the address is link-local, multicast or unspecified; set allow_private = true if that is intended", show(n))
		case (private || closed) && given != nil && !given.bool:
			t.fail(given, "allow_private", "is false, but base_url has a private address")
		}
		if u.Scheme == "http" && !private && t.has("auth") {
			t.warn(n, "base_url", "the credential is sent without encryption")
		}
	}
	p.AllowPrivate = private
	if given != nil {
		p.AllowPrivate = given.bool
	}
}

// checkBaseURL rejects URLs to which paths cannot be appended. Its errors do not quote the value, which may contain a
// password.
func checkBaseURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	switch {
	case !strings.Contains(s, "://"):
		return nil, invalid("must start with https:// or http://")
	case err != nil || checkPrintable(s) != nil || strings.Contains(s, `\`):
		return nil, invalid("is not a valid URL")
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, invalid("must start with https:// or http://")
	case u.User != nil:
		return nil, invalid("must not contain a user or password; put the credential in auth")
	case !hostName(u.Hostname()) && !isIP(u.Hostname()):
		return nil, invalid("has an invalid host")
	case strings.HasSuffix(u.Host, ":") || u.Port() != "" && !validPort(u.Port()):
		return nil, invalid("has an invalid port")
	case u.RawQuery != "" || u.ForceQuery || strings.Contains(s, "#"):
		return nil, invalid("must not have a query or a fragment")
	case u.Path != "" && path.Clean(u.Path) != strings.TrimRight(u.Path, "/") && u.Path != "/":
		return nil, invalid("must not have an empty, . or .. segment")
	}
	return u, nil
}

func validPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && n > 0
}

func isIP(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}

// privateHost classifies an IP address or localhost, whose meaning does not depend on DNS. A private address is a
// loopback address or in a private network, and is allowed because it is written in the configuration. A closed one,
// such as a link-local address of a cloud's metadata service, needs allow_private.
func privateHost(host string) (private, closed bool) {
	if strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") {
		return true, false
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return false, false
	}
	ip = ip.Unmap()
	return ip.IsLoopback() || ip.IsPrivate(), ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsUnspecified()
}

func timeouts(t *table, out *Timeout) {
	limits := t.table("timeout")
	out.Connect = limits.duration("connect", 3*time.Second, time.Millisecond, hour)
	out.TLS = limits.duration("tls", 5*time.Second, time.Millisecond, hour)
	out.FirstByte = limits.duration("first_byte", 60*time.Second, time.Millisecond, day)
	out.Idle = limits.duration("idle", 60*time.Second, time.Millisecond, day)
	out.Event = limits.duration("event", 0, 0, day)
	out.Total = limits.duration("total", 15*time.Minute, time.Millisecond, 7*day)
	out.Write = limits.duration("write", 30*time.Second, time.Millisecond, hour)
	limits.finish()
}

func breaker(t *table, out *Breaker) {
	b := t.table("breaker")
	on := b.bool("enabled", true)
	out.Failures = int(b.integer("failures", 5, 1, 1<<16))
	out.Share = b.share("share", 0.8)
	out.Window = b.duration("window", 30*time.Second, time.Second, hour)
	out.Pause = b.duration("pause", 2*time.Second, time.Millisecond, hour)
	out.MaxPause = b.duration("max_pause", max(time.Minute, out.Pause), time.Millisecond, day)
	if out.MaxPause < out.Pause {
		b.fail(b.lookUp("max_pause"), "max_pause", "must not be shorter than pause, which is %s", out.Pause)
	}
	if !on {
		out.Failures = 0
	}
	b.finish()
}

func (l *loader) listModels(t *table, p *Provider) {
	list := t.table("list_models")
	p.ListModels.Enabled = list.bool("enabled", true) && list.exists()
	p.ListModels.Every = list.duration("every", 10*time.Minute, time.Second, 7*day)
	p.ListModels.Only, _ = list.globs("only")
	list.finish()
}

// maxProbed is the maximum number of metrics that are read of a provider.
const maxProbed = 16

func probe(t *table, p *Provider) {
	probe := t.table("probe")
	out := &Probe{Path: "/metrics", Every: probe.duration("every", time.Second, 100*time.Millisecond, hour)}
	if path, n := probe.text("path"); n != nil {
		if err := checkPath(path); err != nil || strings.Contains(path, "*") {
			probe.fail(n, "path", "%s: want a path such as /metrics", show(n))
		}
		out.Path = path
	}
	elements, _ := probe.strings("read")
	for _, e := range elements {
		switch {
		case !validMetric(e.text):
			probe.fail(e, "read", "%s: not the name of a metric", show(e))
		case slices.Contains(out.Read, e.text):
			probe.fail(e, "read", "%s is listed twice", show(e))
		case len(out.Read) == maxProbed:
			probe.fail(e, "read", "must not have more than %d metrics", maxProbed)
		}
		out.Read = append(out.Read, e.text)
	}
	probe.finish()
	if !probe.exists() {
		return
	}
	if len(elements) == 0 {
		probe.fail(nil, "read", "is missing: name at least one metric")
	}
	if p.BaseURL == "" && p.Off == "" {
		t.fail(t.lookUp("probe"), "probe", "needs a base_url")
	}
	p.Probe = out
}

// validMetric reports whether a text is the name of a metric in the Prometheus text format.
func validMetric(s string) bool {
	for i, c := range []byte(s) {
		letter := c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' || c == ':'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != "" && len(s) <= 256
}

// checkPath checks a path that a plugin may request. In a segment, * matches one or more characters.
func checkPath(s string) error {
	switch {
	case !strings.HasPrefix(s, "/"):
		return invalid("a path must start with /")
	case path.Clean(s) != s:
		return invalid("a path must not have an empty, . or .. segment, or end with /")
	case strings.ContainsAny(s, `\?#%`):
		return invalid(`a path must not contain \, ?, # or %%`)
	}
	return checkPrintable(s)
}

// reservedHeaders are headers that the gateway sets or that control the connection; see rule 11 of sdk/abi/README.md.
var reservedHeaders = []string{
	"authorization", "host", "cookie", "set-cookie", "content-length", "content-type", "accept", "accept-encoding", "content-encoding",
	"transfer-encoding", "te", "trailer", "connection", "keep-alive", "proxy-connection", "proxy-authorization",
	"proxy-authenticate", "upgrade", "expect", "forwarded", "via",
}

func checkPluginHeader(s, credential string) error {
	lower := strings.ToLower(s)
	switch {
	case !httpfield.ValidName(s):
		return invalid("is not a valid header name")
	case slices.Contains(reservedHeaders, lower), strings.HasPrefix(lower, "x-amz-"), strings.HasPrefix(lower, "x-forwarded-"),
		credential != "" && strings.EqualFold(s, credential):
		return invalid("a plugin must not set this header")
	}
	return nil
}

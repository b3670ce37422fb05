package config

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/httpfield"
)

// Telemetry is the table [telemetry]: what is exported to an OpenTelemetry collector.
type Telemetry struct {
	OTLP    string            // base URL of the collector, without a trailing slash; "" exports nothing
	CA      string            // file with the certificates that verify the collector's; "" for those of the system
	Headers map[string]Secret // of requests to the collector, by their names in lower case
	Traces  Traces
	Trust   string        // TrustKeys or TrustNone
	Metrics time.Duration // interval between exports of metrics; 0 exports none
	Logs    bool          // whether the access log is exported
	Content *Content      // which traces have the prompt and the response; nil for none
	Names   []string      // versions of the conventions whose names are used: NamesGenAI2026, Names137
}

// Traces configures which requests are traced.
type Traces struct {
	Sample    float64 // share of requests, 0 to 1
	Errors    float64 // share of requests that failed or needed another attempt, 0 to 1
	PerSecond int     // maximum traces in a second
}

// Content configures which traces have the prompt and the response.
type Content struct {
	Models []Glob  // by ID
	Keys   []Glob  // by name
	Sample float64 // share of these traces, 0 to 1
	Max    int64   // maximum bytes of the prompt, and of the response
}

// Applies reports whether traces of requests for a model, with a key, may have content.
func (c *Content) Applies(model, key string) bool {
	return slices.ContainsFunc(c.Models, func(g Glob) bool { return g.Match(model) }) && slices.ContainsFunc(c.Keys, func(g Glob) bool { return g.Match(key) })
}

// The values of Telemetry.Trust.
const (
	TrustKeys = "keys" // the trace context of a client with a valid key is continued
	TrustNone = "none" // no client's trace context is continued
)

// The values of Telemetry.Names.
const (
	NamesGenAI2026 = "genai-2026"
	Names137       = "1.37"
)

// telemetry reads [telemetry].
func (l *loader) telemetry(t table) {
	c := &l.cfg.Telemetry
	l.collectorURL(&t)
	c.CA = l.certificates(&t, c.OTLP, "otlp")
	l.collectorHeaders(&t)
	traces := t.table("traces")
	c.Traces.Sample = traces.share("sample", 0.1)
	c.Traces.Errors = traces.share("errors", 1)
	c.Traces.PerSecond = int(traces.integer("per_second", 100, 1, 1e6))
	traces.finish()
	c.Trust = t.choice("trust", TrustKeys, TrustNone)
	metrics := t.table("metrics")
	if every := metrics.duration("every", 15*time.Second, time.Second, hour); metrics.exists() {
		c.Metrics = every
	}
	metrics.finish()
	c.Logs = t.bool("logs", false)
	c.Content = l.content(t.table("content"))
	c.Names = []string{NamesGenAI2026}
	if elements, there := t.strings("names"); there {
		c.Names = nil
		known := []string{NamesGenAI2026, Names137}
		for _, e := range elements {
			if !slices.Contains(known, e.text) {
				t.fail(e, "names", "%s is invalid: want %s%s", show(e), alternatives(known), suggest(e.text, known))
			} else if !slices.Contains(c.Names, e.text) {
				c.Names = append(c.Names, e.text)
			}
		}
		if len(elements) == 0 {
			t.fail(t.lookUp("names"), "names", "must not be empty")
		}
	}
	if n := t.lookUp("otlp"); t.exists() && (n == nil || n.kind == kindString && n.text == "") {
		t.warn(n, "otlp", "is not set: nothing is exported")
	}
	t.finish()
}

// content reads telemetry.content, which must name models or keys.
func (l *loader) content(t table) *Content {
	c := &Content{Models: t.patterns("models"), Keys: t.patterns("keys"), Sample: t.share("sample", 1), Max: t.size("max", 16<<10, 1<<10, 1<<20)}
	t.finish()
	switch {
	case !t.exists():
		return nil
	case !t.has("models") && !t.has("keys"):
		t.fail(t.n, "", `must have models or keys; write models = ["*"] for all`)
	case l.cfg.Server.Auth == AuthNone:
		t.warn(t.n, "", `never applies: with auth = "none", traces have no content`)
	}
	return c
}

// collectorURL reads the base URL of the collector, to which /v1/traces and so on are appended.
func (l *loader) collectorURL(t *table) {
	raw, n := t.text("otlp")
	if raw == "" {
		return
	}
	u, err := checkBaseURL(raw)
	switch {
	case err != nil:
		t.fail(n, "otlp", "%s: %v", show(n), err)
		return
	case strings.HasSuffix(strings.TrimRight(u.Path, "/"), "/v1/traces"):
		t.fail(n, "otlp", "ends in /v1/traces, which is appended: remove it")
		return
	case u.Port() == "4317":
		t.warn(n, "otlp", "has the port of OTLP over gRPC, and the gateway sends OTLP over HTTP, usually port 4318")
	}
	if private, _ := privateHost(u.Hostname()); u.Scheme == "http" && !private && isPublic(u.Hostname()) {
		t.warn(n, "otlp", "traces, and the headers of requests, are sent without encryption")
	}
	l.cfg.Telemetry.OTLP = strings.TrimRight(raw, "/")
}

// certificates reads and checks the file, at the key ca, with the certificate authority of the server at a URL, which is
// the value of another key.
func (l *loader) certificates(t *table, url, key string) (file string) {
	name, n := t.text("ca")
	if name == "" {
		return ""
	}
	file = l.relative(n, name)
	data, err := l.o.ReadFile(file)
	if err == nil {
		err = checkCertificate(data)
	}
	switch {
	case err != nil:
		t.fail(n, "ca", "%s: %v", show(n), withoutPath(err))
	case url != "" && !strings.HasPrefix(url, "https://"):
		t.fail(n, "ca", `can never apply: %s does not begin with "https://"`, key)
	}
	return file
}

// collectorHeaders reads the headers of requests to the collector. Each value is a secret.
func (l *loader) collectorHeaders(t *table) {
	headers := t.table("headers")
	if !headers.exists() {
		return
	}
	c := &l.cfg.Telemetry
	c.Headers = make(map[string]Secret)
	for _, m := range headers.n.names {
		where := headers.path.child(m.name)
		value, n := l.secretText(&where, headers.lookUp(m.name), checkHeaderValue)
		name := strings.ToLower(m.name)
		switch {
		case n == nil: // already reported
		case !httpfield.ValidName(m.name) || name != "authorization" && slices.Contains(reservedHeaders, name) || name == "user-agent":
			headers.fail(n, m.name, "is not a header that can be set")
		case value.Secret != "":
			c.Headers[name] = value.Secret
		}
	}
}

// checkHeaderValue checks the value of a header. Its error does not contain it.
func checkHeaderValue(text string) error {
	if !httpfield.ValidValue(text) || strings.TrimSpace(text) != text {
		return invalid("is not the value of a header")
	}
	return nil
}

// Secrets returns the values of the headers, so that they can be redacted.
func (t *Telemetry) Secrets() (secrets []string) {
	for _, name := range slices.Sorted(maps.Keys(t.Headers)) {
		secrets = append(secrets, t.Headers[name].Reveal())
	}
	return secrets
}

// Uses reports whether the names of a version of the conventions are used.
func (t *Telemetry) Uses(names string) bool { return slices.Contains(t.Names, names) }

// Traced reports whether any request may be traced.
func (t *Telemetry) Traced() bool {
	return t.OTLP != "" && (t.Traces.Sample > 0 || t.Traces.Errors > 0 || t.Trust == TrustKeys)
}

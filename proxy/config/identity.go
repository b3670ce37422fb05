package config

import (
	"net/url"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Identification is how clients other than keys are identified, and who decides about requests of all.
type Identification struct {
	Issuers       []Issuer
	Identities    []Identity // in the order in which they are tried
	Authorization Authorization
}

// Issuer is an entry of [[issuers]]: an identity provider whose tokens clients may present instead of a key.
type Issuer struct {
	Name      string
	URL       string // the claim iss of its tokens, and unless JWKS or File is set, where discovery starts
	JWKS      string // URL of its keys; "" if they are found by discovery, or in File
	File      string // file with its keys; "" if they are fetched
	Audiences []string
	Stale     time.Duration // how long keys are used after they were fetched last
	Pos       Position
}

// Identity is an entry of [[identities]]: which tokens or client certificates are accepted, and what their principals may
// do. The first entry that matches a token applies.
type Identity struct {
	Issuer      int          // index into Config.Issuers, or ByCertificate
	Claims      []ClaimMatch // all of which must match
	Name        Template     // of the principal
	Team        Template     // "" for no team
	TeamDefault string       // for a Team that is not in Config.Teams; "" rejects the token
	Pseudonym   bool         // the name is replaced by a hash of it, with Router.Salt
	Models      []Glob       // models that the principals may use; empty for none
	Limits      Limits       // of each principal
	Budgets     []Budget
	Tags        map[string]string // nil if there are none
	Explain     bool              // the principals may ask how their requests are routed
	Pos         Position
}

// ClaimMatch is a claim with patterns, one of which must match its value, or one of its values if it is an array.
type ClaimMatch struct {
	Claim  string // a member of the claims or, with a leading "/", a JSON Pointer
	Values []Glob
}

// Template is a text with claims in braces, such as "{sub}".
type Template string

// Parts returns the template's texts and claims in turn, beginning with a text.
func (t Template) Parts() (parts []string) {
	rest := string(t)
	for {
		text, after, found := strings.Cut(rest, "{")
		parts = append(parts, text)
		if !found {
			return parts
		}
		claim, tail, _ := strings.Cut(after, "}")
		parts, rest = append(parts, claim), tail
	}
}

// MaxPrincipal is the maximum length of a principal's name, in bytes.
const MaxPrincipal = 256

// The limits of [[issuers]] and [[identities]].
const (
	maxIssuers    = 64
	maxAudiences  = 32
	maxIdentities = 1000
	maxTemplate   = 256
)

// Authorization is the table [authorization]: a service that decides about requests which have been authenticated.
type Authorization struct {
	URL     string // "" if no service is asked
	Timeout time.Duration
	Allow   bool // requests are allowed while the service cannot be asked
}

// authorization reads [authorization].
func (l *loader) authorization(t table) {
	if !t.exists() {
		return
	}
	a := &l.cfg.Authorization
	if text, n := t.required("url"); n != nil {
		a.URL = text
		t.checkIssuerURL(n, "url", "verdicts in transit can let anybody in")
	}
	a.Timeout = t.duration("timeout", 200*time.Millisecond, 10*time.Millisecond, 10*time.Second)
	if _, n := t.required("on_failure"); n != nil {
		a.Allow = t.choice("on_failure", "deny", "allow") == "allow"
	}
	t.finish()
}

// issuers reads [[issuers]].
func (l *loader) issuers(tables []table) {
	if len(tables) > maxIssuers {
		tables[maxIssuers].fail(nil, "", "there are more than %d issuers", maxIssuers)
		return
	}
	names, urls := make(map[string]int), make(map[string]int)
	for i := range tables {
		t := &tables[i]
		s := Issuer{Pos: t.position()}
		if name, n := t.required("name"); n != nil {
			if err := checkName(name); err != nil {
				t.fail(n, "name", "%s: %v", show(n), err)
			} else if name == CertificateIssuer {
				t.fail(n, "name", "%s is the issuer of client certificates: use another name", show(n))
			} else if first, twice := names[name]; twice {
				t.fail(n, "name", "%s is already the name of issuers[%d]", show(n), first)
			}
			names[name] = i
			s.Name = name
		}
		jwks := t.lookUp("jwks")
		file := table{d: t.d, path: t.path}
		if jwks == nil || jwks.kind == kindTable {
			file = t.table("jwks")
		}
		name, at := file.text("file")
		switch {
		case at != nil:
			s.File = l.relative(at, name)
		case file.n != nil && !file.has("file"):
			file.fail(nil, "file", "is missing")
		case jwks != nil && jwks.kind != kindTable:
			if text, n := t.text("jwks"); n != nil {
				s.JWKS = text
				t.checkIssuerURL(n, "jwks", canSign)
			}
		}
		file.finish()
		if text, n := t.required("url"); n != nil {
			s.URL = text
			if s.JWKS == "" && s.File == "" {
				t.checkIssuerURL(n, "url", canSign)
			}
			// Two issuers with the same URL would be ambiguous: a token names its issuer only by that.
			if first, twice := urls[text]; twice {
				t.fail(n, "url", "%s is already the url of issuers[%d]; list several audiences there", show(n), first)
			}
			urls[text] = i
		}
		s.Audiences = t.audiences("audience")
		s.Stale = t.duration("stale", 24*time.Hour, time.Minute, 30*day)
		t.finish()
		l.cfg.Issuers = append(l.cfg.Issuers, s)
	}
}

// canSign is why keys need HTTPS.
const canSign = "the keys in transit can sign tokens"

// checkIssuerURL checks a URL that keys or verdicts are fetched from. why is why plain HTTP is allowed only on this machine.
func (t *table) checkIssuerURL(n *node, name, why string) {
	u, err := url.Parse(n.text)
	switch {
	case err != nil || checkPrintable(n.text) != nil || u.Host == "" || u.User != nil || u.Fragment != "" || u.Path != "" && path.Clean(u.Path) != strings.TrimRight(u.Path, "/") && u.Path != "/":
		t.fail(n, name, "%s is not a valid URL", show(n))
	case u.Scheme == "http" && loopback(u.Hostname()+":0"):
	case u.Scheme != "https":
		t.fail(n, name, "%s: must start with https://, because whoever can change %s", show(n), why)
	}
}

// audiences returns one audience, or several.
func (t *table) audiences(name string) []string {
	if n := t.lookUp(name); n != nil && n.kind == kindString {
		if n.text == "" {
			t.fail(n, name, "must not be empty")
		}
		return []string{n.text}
	}
	elements, there := t.strings(name)
	var all []string
	for _, e := range elements {
		if e.text == "" || slices.Contains(all, e.text) {
			t.fail(e, name, "%s must be neither empty nor listed twice", show(e))
		}
		all = append(all, e.text)
	}
	switch {
	case !there:
		t.fail(nil, name, "is missing: without an audience, tokens for other services would be accepted")
	case len(elements) == 0 && len(t.lookUp(name).items) == 0, len(elements) > maxAudiences:
		t.fail(t.lookUp(name), name, "must have 1 to %d audiences", maxAudiences)
	}
	return all
}

// identities reads [[identities]].
func (l *loader) identities(tables []table) {
	if len(tables) > maxIdentities {
		tables[maxIdentities].fail(nil, "", "there are more than %d identities", maxIdentities)
		return
	}
	used := make([]bool, len(l.cfg.Issuers))
	for i := range tables {
		t := &tables[i]
		d := Identity{Pos: t.position()}
		if name, n := t.required("issuer"); n != nil {
			var known []string
			for _, s := range l.cfg.Issuers {
				known = append(known, s.Name)
			}
			switch d.Issuer = slices.Index(known, name); {
			case name == CertificateIssuer:
				d.Issuer = ByCertificate
				if !l.cfg.Server.TLS.asksClients() {
					t.fail(n, "issuer", "%s needs client_ca in [server.tls]", show(n))
				}
			case d.Issuer < 0:
				t.fail(n, "issuer", "unknown issuer %s%s; declare issuers with [[issuers]]", show(n), suggest(name, known))
				d.Issuer = 0
			default:
				used[d.Issuer] = true
			}
		}
		when := t.table("when")
		d.Claims = when.claims("claim", `a claim, as in { groups = ["ai-*"] }`)
		when.finish()
		if _, n := t.required("name"); n != nil {
			if d.Name = t.template("name"); d.Name != "" && len(d.Name.Parts()) == 1 {
				t.fail(n, "name", "%s contains no claim, so that all tokens would be one principal; write a claim in braces, such as \"{sub}\"", show(n))
			}
		}
		d.Team = t.template("team")
		d.TeamDefault = l.teamDefault(t, d.Team)
		if d.Issuer == ByCertificate {
			t.checkCertificateClaims(&d)
		}
		if d.Pseudonym = t.bool("pseudonym", false); d.Pseudonym {
			l.pseudonyms = append(l.pseudonyms, *t)
		}
		var there bool
		if d.Models, there = t.globs("models"); !there {
			d.Models = []Glob{"*"}
		}
		d.Limits, d.Budgets = l.bounds(t, "identity", "")
		d.Tags = t.labels("tags")
		d.Explain = t.bool("explain", false)
		t.finish()
		l.cfg.Identities = append(l.cfg.Identities, d)
	}
	if l.cfg.Server.TLS.asksClients() && !l.cfg.Server.TLS.Required && !slices.ContainsFunc(l.cfg.Identities, func(d Identity) bool { return d.Issuer == ByCertificate }) {
		l.d.warnings = append(l.d.warnings, newError(l.d.file, Position{}, "server.tls.client_ca", "no [[identities]] accept client certificates"))
	}
	for i, is := range used {
		if s := &l.cfg.Issuers[i]; !is {
			l.d.warnings = append(l.d.warnings, newError(l.d.file, s.Pos, keyOf("issuers", i, "name"), "no [[identities]] accept tokens of the issuer"))
		}
	}
}

// CertificateClaims are what an entry of [[identities]] can name of a client certificate: its names of each kind, the
// distinguished name of its subject, and the common name in that.
var CertificateClaims = []string{"san.uri", "san.dns", "san.email", "subject", "subject.cn"}

// checkCertificateClaims checks that client certificates have the claims that an entry names.
func (t *table) checkCertificateClaims(d *Identity) {
	check := func(member, claim string) {
		if !slices.Contains(CertificateClaims, claim) {
			t.fail(t.lookUp(member), member, "certificates have no %q%s: want %s", claim, suggest(claim, CertificateClaims), alternatives(CertificateClaims))
		}
	}
	for _, m := range d.Claims {
		check("when", m.Claim)
	}
	for member, template := range map[string]Template{"name": d.Name, "team": d.Team} {
		for i, part := range template.Parts() {
			if i%2 == 1 {
				check(member, part)
			}
		}
	}
}

// teamDefault reads team_default.
func (l *loader) teamDefault(t *table, team Template) string {
	fixed := len(team.Parts()) == 1
	if n := t.lookUp("team"); fixed && n != nil && team != "" && !contains(l.teamNames, string(team)) {
		t.fail(n, "team", "unknown team %s%s; declare teams with [[teams]]", show(n), suggest(string(team), l.teamList()))
	}
	name, n := t.text("team_default")
	switch {
	case n == nil:
		return ""
	case !contains(l.teamNames, name):
		t.fail(n, "team_default", "unknown team %s%s; declare teams with [[teams]]", show(n), suggest(name, l.teamList()))
	case fixed:
		t.fail(n, "team_default", "can never apply: team contains no claim")
	}
	return name
}

func (l *loader) teamList() (names []string) {
	for _, team := range l.cfg.Teams {
		names = append(names, team.Name)
	}
	return names
}

// claims reads a table of claims, each with an array of patterns. example is for the error about an empty one.
func (t *table) claims(name, example string) (all []ClaimMatch) {
	own := t.table(name)
	if own.n == nil {
		return nil
	}
	if len(own.n.names) == 0 {
		own.fail(nil, "", "must not be empty; write %s", example)
	}
	for i := range own.n.names {
		claim := own.n.names[i].name
		elements, _ := own.strings(claim)
		own.neverEmpty(claim)
		m := ClaimMatch{Claim: claim}
		for _, e := range elements {
			if err := checkClaimGlob(e.text); err != nil {
				own.fail(e, claim, "%s: %v", show(e), err)
				continue
			}
			m.Values = append(m.Values, Glob(e.text))
		}
		all = append(all, m)
	}
	return all
}

// checkClaimGlob checks a pattern of a claim's value, which may contain any characters.
func checkClaimGlob(s string) error {
	switch {
	case s == "" || len(s) > MaxPrincipal:
		return invalid("a pattern has 1 to %d bytes", MaxPrincipal)
	case strings.Contains(s, "**"):
		return invalid("one * matches everything")
	case strings.Count(s, "*") > maxStars:
		return invalid("a pattern has at most %d stars", maxStars)
	}
	return nil
}

// template reads a text with claims in braces.
func (t *table) template(name string) Template {
	s, n := t.text(name)
	if n == nil {
		return ""
	}
	open := strings.Count(s, "{")
	parts := Template(s).Parts()
	for i := 1; i < len(parts); i += 2 {
		if parts[i] == "" {
			t.fail(n, name, "%s names no claim in its braces", show(n))
			return ""
		}
	}
	switch {
	case s == "" || len(s) > maxTemplate:
		t.fail(n, name, "must have 1 to %d bytes", maxTemplate)
		return ""
	case strings.Count(s, "}") != open || strings.Join(pairs(parts), "") != s:
		t.fail(n, name, "%s has braces that do not match; write claims as in \"{sub}\"", show(n))
		return ""
	case !PrincipalName(s):
		t.fail(n, name, "%s contains characters that a name must not have", show(n))
		return ""
	}
	return Template(s)
}

// pairs returns the parts of a template with the braces around its claims.
func pairs(parts []string) []string {
	out := slices.Clone(parts)
	for i := 1; i < len(out); i += 2 {
		out[i] = "{" + out[i] + "}"
	}
	return out
}

// PrincipalName reports whether s may be the name of a principal: 1 to MaxPrincipal bytes of UTF-8 without control
// characters or spaces at its ends.
func PrincipalName(s string) bool {
	return s != "" && len(s) <= MaxPrincipal && utf8.ValidString(s) && strings.TrimSpace(s) == s &&
		!strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) })
}

// checkPseudonyms checks that the salt of pseudonyms is configured. A random one would give each gateway, and each start,
// other pseudonyms.
func (l *loader) checkPseudonyms() {
	for i := range l.pseudonyms {
		if t := &l.pseudonyms[i]; l.cfg.Router.Salt == "" {
			t.fail(t.lookUp("pseudonym"), "pseudonym", "needs salt in [router], which must be the same for all gateways")
		}
	}
}

// mayBePrincipal reports whether a pattern of key names can match a principal, whose name begins with that of its issuer
// and a colon.
func (c *Config) mayBePrincipal(g Glob) bool {
	may := func(issuer string) bool {
		own, _, found := strings.Cut(string(g), ":")
		if before, _, star := strings.Cut(string(g), "*"); star && (!found || len(before) < len(own)) {
			return strings.HasPrefix(issuer+":", before) || strings.HasPrefix(before, issuer+":")
		}
		return found && own == issuer
	}
	return slices.ContainsFunc(c.Issuers, func(s Issuer) bool { return may(s.Name) }) || c.Server.TLS.asksClients() && may(CertificateIssuer)
}

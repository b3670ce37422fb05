package config

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Store is the table [store].
type Store struct {
	Journal   string         // folder of the journal; "" for the state folder
	Keep      time.Duration  // how long individual requests are kept; daily sums are kept forever
	OnFailure string         // StoreServe or StoreRefuse: what happens to requests with budgets while the journal cannot reserve more room
	Zone      *time.Location // time zone of the windows of budgets, and of days in the journal

	URL     Secret        // Redis in which several gateways count together; "" if each one counts by itself
	CA      string        // file with the certificates that verify the server's certificate; "" for those of the system
	Prefix  string        // prefix of the keys in Redis
	Timeout time.Duration // for a round trip that a request waits for
	Share   float64       // largest share of the remaining limit that a gateway is granted at once, 0 to 1
	Lease   time.Duration // how long Redis remembers a gateway that does not report
}

// The values of Store.OnFailure.
const (
	StoreServe  = "serve"
	StoreRefuse = "refuse"
)

// WhenDown is what happens to requests under a shared limit or budget while the store cannot be reached.
type WhenDown string

// The values of WhenDown.
const (
	NoStore   WhenDown = ""
	DownDeny  WhenDown = "deny"  // they are rejected
	DownShare WhenDown = "share" // they are served from what the gateway was granted, and then rejected
	DownLocal WhenDown = "local" // the gateway counts by itself, as if there were no store
)

// store reads [store].
func (l *loader) store(t table) {
	s := &l.cfg.Store
	folder, n := t.text("journal")
	s.Journal = l.relative(n, folder)
	if n != nil && folder == "" {
		t.fail(n, "journal", "must not be empty; leave it out for the state folder")
	}
	s.Keep = t.duration("keep", 30*24*time.Hour, 24*time.Hour, 10*365*24*time.Hour)
	s.OnFailure = t.choice("on_failure", StoreServe, StoreRefuse)
	s.Zone = t.zone("zone")
	l.hasStore, l.storeTable = t.has("url"), t
	l.storeURL(&t)
	l.storeCA(&t)
	s.Prefix = "sluice"
	if v, n := t.text("prefix"); n != nil {
		s.Prefix = v
		if err := checkName(v); err != nil {
			t.fail(n, "prefix", "%s: %v", show(n), err)
		}
	}
	s.Timeout = t.duration("timeout", 50*time.Millisecond, time.Millisecond, 10*time.Second)
	s.Share = t.share("share", 0.02)
	s.Lease = t.duration("lease", 10*time.Second, 3*time.Second, hour)
	t.finish()
}

// storeURL reads the URL of the store. Its password must not reach a plugin, neither decoded nor in the URL's encoding.
func (l *loader) storeURL(t *table) {
	value, n := l.secretKey(t, "url")
	if n == nil {
		return
	}
	l.cfg.Store.URL = value.Secret
	for _, secret := range l.cfg.Store.Secrets() {
		l.credentials = append(l.credentials, credential{value: secret})
	}
	if n.text == "" || checkSecret(n.text) != nil {
		return // empty, as with a variable that is set in production only, or invalid and already reported
	}
	if err := checkStoreURL(n.text); err != nil {
		t.fail(n, "url", "%v", err)
	}
}

// storeCA reads and checks the file with the certificate authority of the store.
func (l *loader) storeCA(t *table) {
	name, n := t.text("ca")
	if name == "" {
		return
	}
	s := &l.cfg.Store
	s.CA = l.relative(n, name)
	data, err := l.o.ReadFile(s.CA)
	if err == nil {
		err = checkCertificate(data)
	}
	switch {
	case err != nil:
		t.fail(n, "ca", "%s: %v", show(n), withoutPath(err))
	case s.URL != "" && !strings.HasPrefix(s.URL.Reveal(), "rediss://"):
		t.fail(n, "ca", `can never apply: the URL does not begin with "rediss://"`)
	}
}

// Secrets returns the password in the URL, decoded and as it is encoded there, so that it can be redacted. It is nil if
// the URL has no password.
func (s *Store) Secrets() (secrets []string) {
	u, err := url.Parse(s.URL.Reveal())
	if err != nil || u.User == nil {
		return nil
	}
	_, rest, _ := strings.Cut(s.URL.Reveal(), "://")
	user, _, _ := strings.Cut(rest, "/")
	_, written, _ := strings.Cut(user[:strings.LastIndexByte(user, '@')], ":")
	password, _ := u.User.Password()
	for _, form := range []string{password, written} {
		if form != "" && !slices.Contains(secrets, form) {
			secrets = append(secrets, form)
		}
	}
	return secrets
}

// storeParameters are the parameters that the store's URL may have. Others are rejected, because with a misspelled
// master_set, a sentinel would be used as a server.
var storeParameters = []string{"addr", "db", "master_set"}

// checkStoreURL checks the URL of the store. Its errors do not contain it.
func checkStoreURL(text string) error {
	u, err := url.Parse(text)
	if err != nil {
		return invalid(`is not a URL; write one such as "redis://:PASSWORD@HOST:6379", with characters of the password other than letters and digits encoded as %%XX`)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return invalid("has parameters that are not valid")
	}
	for name := range query {
		if !slices.Contains(storeParameters, name) {
			return invalid("has an unknown parameter; want %s", alternatives(storeParameters))
		}
	}
	switch u.Scheme {
	case "redis", "rediss":
		if u.Hostname() == "" {
			return invalid(`has no host; write one such as "redis://HOST:6379"`)
		}
		if u.Path != "" && u.Path != "/" && !isDatabase(u.Path[1:]) {
			return invalid(`must end with the number of a database, as in "redis://HOST:6379/0", or with the port`)
		}
	case "unix":
		if u.Host != "" || len(u.Path) < 2 {
			return invalid(`must have the path of a socket, such as "unix:///run/redis.sock"`)
		}
		if query.Has("addr") || query.Has("master_set") {
			return invalid("has parameters that a socket cannot have")
		}
	default:
		return invalid(`must begin with "redis://", "rediss://" for TLS, or "unix://"`)
	}
	if query.Has("db") && !isDatabase(query.Get("db")) {
		return invalid("must have the number of a database as db")
	}
	if u.Fragment != "" {
		return invalid("must not have a part after #; in a password it is %%23")
	}
	return nil
}

func isDatabase(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && strconv.FormatUint(n, 10) == text
}

// sharing reads whether gateways share limits or a budget, and what happens while the store is down; standard is the
// default.
func (l *loader) sharing(t *table, standard WhenDown) WhenDown {
	shared := t.lookUp("shared")
	local := !t.bool("shared", true)
	at := t.lookUp("when_down")
	down := WhenDown(t.choice("when_down", string(DownDeny), string(DownShare), string(DownLocal)))
	if at == nil {
		down = standard
	}
	switch {
	case !l.hasStore && shared != nil && !local:
		t.fail(shared, "shared", "can never apply: store.url is not set")
	case !l.hasStore && at != nil:
		t.fail(at, "when_down", "can never apply: store.url is not set")
	case local && at != nil:
		t.fail(at, "when_down", "can never apply: shared is false")
	}
	if local || l.cfg.Store.URL == "" {
		return NoStore
	}
	return down
}

// checkShared warns about a store that is not used.
func (l *loader) checkShared() {
	if l.cfg.Store.URL != "" && !l.cfg.Shares() {
		l.storeTable.warn(l.storeTable.lookUp("url"), "url", "the store is not used: no limits or budgets are shared")
	}
}

// Shares reports whether any limits or budgets are shared with other gateways.
func (c *Config) Shares() bool {
	shares := func(l Limits, budgets []Budget) bool {
		return l.WhenDown != NoStore || slices.ContainsFunc(budgets, func(b Budget) bool { return b.WhenDown != NoStore })
	}
	return slices.ContainsFunc(c.Keys, func(k Key) bool { return shares(k.Limits, k.Budgets) }) ||
		slices.ContainsFunc(c.Identities, func(d Identity) bool { return shares(d.Limits, d.Budgets) }) ||
		slices.ContainsFunc(c.Teams, func(t Team) bool { return shares(t.Limits, t.Budgets) }) ||
		slices.ContainsFunc(c.Models, func(m Model) bool { return shares(m.Limits, m.Budgets) }) ||
		slices.ContainsFunc(c.Providers, func(p Provider) bool { return shares(p.Limits, p.Budgets) })
}

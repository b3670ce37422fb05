package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
)

const (
	maxID     = 256  // bytes of a model's id
	maxSecret = 4096 // bytes of a credential
	maxLimit  = 1e9  // largest rate limit, per minute
)

func (l *loader) keys(tables []table) {
	names, digests := make(map[string]int, len(tables)), make(map[Digest]int, len(tables))
	l.cfg.Keys = make([]Key, 0, len(tables))
	for i := range tables {
		t := &tables[i]
		k := Key{Pos: t.position()}
		name, n := t.required("name")
		if n != nil {
			if err := checkName(name); err != nil {
				t.fail(n, "name", "%s: %v", show(n), err)
			} else if first, twice := names[name]; twice {
				t.fail(n, "name", "%s is already the name of keys[%d]", show(n), first)
			}
			names[name] = i
			k.Name = name
		}
		for _, d := range l.keyDigests(t, &k) {
			if first, twice := digests[d]; twice {
				t.fail(nil, "", "has the same secret as keys[%d]", first)
			}
			digests[d] = i
		}
		var there bool
		if k.Models, there = t.globs("models"); !there {
			k.Models = []Glob{"*"}
		}
		k.NotBefore, _ = t.moment("not_before")
		var at *node
		if k.Expires, at = t.moment("expires"); at != nil && !k.Expires.After(l.o.Now) {
			t.warn(at, "expires", "the key has expired")
		}
		if !k.Expires.IsZero() && !k.NotBefore.Before(k.Expires) {
			t.fail(at, "expires", "must be later than not_before")
		}
		k.Disabled = t.bool("disabled", false)
		k.Limits, k.Budgets = l.bounds(t, "key", k.Name)
		k.Team = l.teamOf(t)
		k.Users = l.users(t)
		k.Tags = t.labels("tags")
		k.Explain = t.bool("explain", false)
		t.finish()
		l.cfg.Keys = append(l.cfg.Keys, k)
	}
}

// teams reads [[teams]].
func (l *loader) teams(tables []table) {
	for i := range tables {
		t := &tables[i]
		team := Team{Pos: t.position()}
		if name, n := t.required("name"); n != nil {
			if err := checkName(name); err != nil {
				t.fail(n, "name", "%s: %v", show(n), err)
			} else if first, twice := l.teamNames[name]; twice {
				t.fail(n, "name", "%s is already the name of teams[%d]", show(n), first)
			}
			l.teamNames[name] = i
			team.Name = name
		}
		team.Limits, team.Budgets = l.bounds(t, "team", team.Name)
		t.finish()
		l.cfg.Teams = append(l.cfg.Teams, team)
	}
}

// teamOf reads the key team of a client key.
func (l *loader) teamOf(t *table) string {
	name, n := t.text("team")
	if n == nil {
		return ""
	}
	if !contains(l.teamNames, name) {
		t.fail(n, "team", "unknown team %s%s; declare teams with [[teams]]", show(n), suggest(name, l.teamList()))
	}
	return name
}

// labels reads a table of tags with their values. It is nil if there are none.
func (t *table) labels(name string) map[string]string {
	own := t.table(name)
	if own.n == nil || len(own.n.names) == 0 {
		return nil
	}
	all := make(map[string]string, len(own.n.names))
	for i := range own.n.names {
		tag := own.n.names[i].name
		value, n := own.text(tag)
		switch {
		case n == nil:
		case !isTag(tag):
			own.fail(n, tag, "a tag has 1 to %d letters, digits, '.', '_' or '-'", maxTag)
		case !isTag(value):
			own.fail(n, tag, "%s is invalid: the value of a tag has 1 to %d letters, digits, '.', '_' or '-'", show(n), maxTag)
		}
		all[tag] = value
	}
	if len(all) > maxTags {
		own.fail(nil, "", "has more than %d tags", maxTags)
	}
	return all
}

// ValidTags reports whether these may be the tags of a key.
func ValidTags(tags map[string]string) bool {
	for name, value := range tags {
		if !isTag(name) || !isTag(value) {
			return false
		}
	}
	return len(tags) <= maxTags
}

// isTag reports whether s is valid as a tag or as its value.
func isTag(s string) bool {
	return s != "" && len(s) <= maxTag && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == ""
}

// AllDigests returns the digests of all secrets of the key.
func (k *Key) AllDigests() (all []Digest) {
	if len(k.Digests) == 0 {
		return []Digest{k.Digest}
	}
	for _, d := range k.Digests {
		all = append(all, d.Digest)
	}
	return all
}

// equal reports whether two digests are the same, and end at the same time.
func (d KeyDigest) equal(o KeyDigest) bool { return d.Digest == o.Digest && d.Expires.Equal(o.Expires) }

// maxDigests limits the digests of a key. Two are enough to rotate it.
const maxDigests = 8

// keyDigests reads the secret, the digest or the digests of a key, and returns the digests of its secrets.
func (l *loader) keyDigests(t *table, k *Key) []Digest {
	n := t.lookUpKind("digests", kindArray)
	if !t.has("digests") {
		if l.secret(t, k) {
			return []Digest{k.Digest}
		}
		return nil
	}
	for _, name := range []string{"secret", "digest"} {
		if t.lookUp(name) != nil {
			t.fail(t.lookUp(name), name, "set %s or digests, not both", name)
		}
	}
	if n == nil {
		return nil
	}
	if len(n.items) == 0 || len(n.items) > maxDigests {
		t.fail(n, "digests", "must have 1 to %d digests", maxDigests)
	}
	var all []Digest
	list := t.path.child("digests")
	for i, e := range n.items {
		path := list.element(i)
		own := table{d: t.d, n: e, path: &path}
		var d KeyDigest
		ok := false
		switch e.kind {
		case kindString:
			d.Digest, ok = l.parseDigest(t, e, "digests")
		case kindTable:
			if _, at := own.required("digest"); at != nil {
				d.Digest, ok = l.parseDigest(&own, at, "digest")
			}
			var at *node
			if d.Expires, at = own.moment("expires"); at != nil && !d.Expires.After(l.o.Now) {
				own.warn(at, "expires", "the digest has expired: remove it")
			}
			own.finish()
		case kindBroken:
		default:
			t.d.fail(e.offset, path.String(), "must be a digest, or a table with digest and expires, not %s", e.kind.description())
		}
		switch {
		case !ok:
		case slices.Contains(all, d.Digest):
			t.fail(e, "digests", "the digest is listed twice")
		default:
			all, k.Digests = append(all, d.Digest), append(k.Digests, d)
		}
	}
	if len(all) > 0 {
		k.Digest = all[0]
	}
	return all
}

// parseDigest parses the digest of a secret.
func (l *loader) parseDigest(t *table, n *node, name string) (d Digest, ok bool) {
	if l.secrets != nil {
		l.secrets[n] = true // a weak key can be found from its digest
	}
	number, ok := strings.CutPrefix(n.text, "sha256:")
	sum, err := hex.DecodeString(number)
	if !ok || err != nil || len(sum) != len(d) {
		t.fail(n, name, `must be "sha256:" and 64 hexadecimal digits`)
		return d, false
	}
	return Digest(sum), true
}

// secret reads the secret or the digest of a key, exactly one of which is required, and reports whether it is valid.
func (l *loader) secret(t *table, k *Key) bool {
	secret, s := l.secretKey(t, "secret")
	_, d := t.text("digest")
	switch {
	case t.has("secret") && t.has("digest"):
		t.fail(d, "digest", "set secret or digest, not both")
	case !t.has("secret") && !t.has("digest"):
		t.fail(nil, "", "secret or digest is missing; `sluice keys new` generates both")
	case s != nil:
		text := s.text
		if text == "" {
			t.fail(s, "secret", "%s", s.whyEmpty("the secret"))
			return false
		}
		if strings.Contains(text, ",") {
			t.fail(s, "secret", "contains a comma, which would be read as two joined headers")
			return false
		}
		where := t.path.child("secret")
		l.looksLikeSecret(&where, s, "; a digest goes into digest")
		k.Secret, k.File, k.Digest = secret.Secret, secret.File, sha256.Sum256([]byte(text))
		return true
	case d != nil:
		sum, ok := l.parseDigest(t, d, "digest")
		k.Digest = sum
		return ok
	}
	return false
}

// checkSecret checks that a credential can be sent in a header. Its errors do not contain it.
func checkSecret(s string) error {
	if len(s) > maxSecret {
		return invalid("has more than %d bytes", maxSecret)
	}
	if err := checkPrintable(s); err != nil {
		return invalid("has a space, a line break or another character that is not allowed in keys")
	}
	return nil
}

// moment returns a date and time with an offset, or the start of a date in UTC. Both may be written as strings, so that
// they can come from a variable.
func (t *table) moment(name string) (time.Time, *node) {
	n := t.lookUp(name)
	if n == nil || n.kind == kindBroken {
		return time.Time{}, nil
	}
	date := n.date()
	if n.kind == kindString {
		date, _ = parseDate(n.text)
	}
	switch v := date.(type) {
	case time.Time:
		return v, n
	case toml.LocalDate:
		return v.AsTime(time.UTC), n
	}
	t.fail(n, name, "must be a date such as 2027-01-31, or a date and time with an offset such as 2027-01-31T12:00:00Z")
	return time.Time{}, nil
}

// maxUselessKeys limits the warnings about keys without a model, because one wrong pattern may be in many keys.
const maxUselessKeys = 10

// warnUselessKeys warns about keys whose patterns match no model.
func (l *loader) warnUselessKeys() {
	c := l.cfg
	listed := slices.ContainsFunc(c.Providers, func(p Provider) bool { return p.ListModels.Enabled })
	if listed || c.Empty() {
		return // the models that providers list are not known here
	}
	known := make(map[Glob]bool) // there may be many keys, but few patterns
	fits := func(g Glob) bool {
		is, there := known[g]
		if !there {
			is = slices.ContainsFunc(c.Models, func(m Model) bool { return g.Match(m.ID) })
			known[g] = is
		}
		return is
	}
	found, after := 0, Position{}
	for i := range c.Keys {
		k := &c.Keys[i]
		if len(k.Models) == 0 || slices.ContainsFunc(k.Models, fits) {
			continue
		}
		if found++; found <= maxUselessKeys {
			l.d.warnings = append(l.d.warnings, newError(l.d.file, k.Pos, keyOf("keys", i, "models"), "no model matches"))
		} else if found == maxUselessKeys+1 {
			after = k.Pos
		}
	}
	if more := found - maxUselessKeys; more > 0 {
		l.d.warnings = append(l.d.warnings, newError(l.d.file, after, "keys", fmt.Sprintf("no model matches the models of %d more keys", more)))
	}
}

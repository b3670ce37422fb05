package access

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"io"
	"strconv"

	"github.com/sluice-gateway/sluice/proxy/config"
)

// Principal describes the holder of a token.
type Principal struct {
	Name    string // in logs, in the ledger and for plugins: the name of the issuer, a colon, and the principal's own
	Account string // identifies what the principal uses; it contains nothing of the token
	Series  string // label of the principal's metrics
	Team    string
	Claims  map[string][]string // those that conditions name; may be nil
}

// NewPrincipals returns a function that returns principals with the rights, limits and budgets of an entry of
// [[identities]].
func NewPrincipals(rights *config.Identity) func(Principal) *Key {
	tagText, bounds := formatTags(rights.Tags), &config.Bounds{Limits: rights.Limits, Budgets: rights.Budgets}
	return func(p Principal) *Key {
		return &Key{
			name: p.Name, hash: Hash(p.Name), team: p.Team, models: rights.Models, tags: rights.Tags, tagText: tagText, explain: rights.Explain,
			principal: bounds, account: p.Account, series: p.Series, claims: p.Claims,
		}
	}
}

// Series returns the label of the metrics of the principals of the i-th entry of [[identities]]. There may be too many
// principals for each to have a series of its own.
func Series(i int) string { return "identities[" + strconv.Itoa(i) + "]" }

// Principal returns the limits and budgets of a principal, the same for all of one entry of [[identities]]; nil for a key
// of the configuration.
func (k *Key) Principal() *config.Bounds { return k.principal }

// With returns the key with a team and tags in place of its own, unless they are empty. Its limits and budgets stay.
func (k *Key) With(team string, tags map[string]string) *Key {
	if team == "" && len(tags) == 0 {
		return k
	}
	changed := *k
	if team != "" {
		changed.team = team
	}
	if len(tags) > 0 {
		changed.tags, changed.tagText = tags, formatTags(tags)
	}
	return &changed
}

// Account returns the name under which what the key uses is counted.
func (k *Key) Account() string {
	if k.principal != nil {
		return k.account
	}
	return k.name
}

// Series returns the label of the key's metrics.
func (k *Key) Series() string {
	if k.principal != nil {
		return k.series
	}
	return k.name
}

// AccountHash returns a hash of a principal's name, and of the issuer or the key that it belongs to.
func AccountHash(of, name string) string {
	sum := sha256.Sum256([]byte(of + "\x00" + name))
	return hex.EncodeToString(sum[:16])
}

// Pseudonym returns the name that replaces a principal's in logs and in the ledger.
func Pseudonym(salt, of, name string) string {
	h := hmac.New(sha256.New, []byte(salt))
	_, _ = io.WriteString(h, of+"\x00"+name)
	return "p-" + base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:15])
}

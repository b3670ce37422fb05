package identity

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/access"
)

// rule is an entry of [[identities]].
type rule struct {
	config     *config.Identity
	name, team []string // parts of the templates
	teams      []config.Team
	series     string
	salt       string   // of pseudonyms; "" if the names are used
	claims     []string // claims that conditions of models name
	make       func(access.Principal) *access.Key
}

func newRules(cfg *config.Config) []rule {
	rules, claims := make([]rule, len(cfg.Identities)), cfg.ClaimNames()
	for i := range rules {
		c := &cfg.Identities[i]
		rules[i] = rule{config: c, name: c.Name.Parts(), team: c.Team.Parts(), teams: cfg.Teams, series: access.Series(i), claims: claims, make: access.NewPrincipals(c)}
		if c.Pseudonym {
			rules[i].salt = cfg.Router.Salt
		}
	}
	return rules
}

// claimant is who asks, by the claims of a token or the names in a certificate.
type claimant interface {
	claimTexts(name string) []string             // of the claim, or of its elements
	claimOne(name string) (text string, ok bool) // of a claim with one text
}

// matches reports whether a token or certificate has all claims of the rule's condition.
func (r *rule) matches(t claimant) bool {
	for i := range r.config.Claims {
		m := &r.config.Claims[i]
		if !slices.ContainsFunc(t.claimTexts(m.Claim), func(text string) bool {
			return slices.ContainsFunc(m.Values, func(g config.Glob) bool { return g.Match(text) })
		}) {
			return false
		}
	}
	return true
}

var (
	errName = fmt.Errorf("the name of the principal has more than %d bytes, or characters that a name must not have", config.MaxPrincipal)
	errTeam = errors.New("the team of the principal is not one of [[teams]], and team_default is not set")
)

// principal returns the principal of a token or certificate.
func (r *rule) principal(t claimant, from *config.Issuer) (*access.Key, error) {
	name, err := fill(t, r.name)
	if err != nil {
		return nil, err
	}
	if !config.PrincipalName(name) {
		return nil, errName
	}
	team, err := fill(t, r.team)
	if r.config.TeamDefault == "" && err != nil {
		return nil, err
	}
	if team != "" && !slices.ContainsFunc(r.teams, func(c config.Team) bool { return c.Name == team }) || err != nil {
		if team = r.config.TeamDefault; team == "" {
			return nil, errTeam
		}
	}
	// The account is that of issuer and name, also if a rule or pseudonym changes later.
	var claims map[string][]string
	for _, name := range r.claims {
		if values := t.claimTexts(name); len(values) > 0 {
			if claims == nil {
				claims = make(map[string][]string)
			}
			claims[name] = values
		}
	}
	p := access.Principal{Claims: claims, Account: from.Name + ":" + access.AccountHash(from.URL, name), Series: r.series, Team: team}
	if r.salt != "" {
		name = access.Pseudonym(r.salt, from.URL, name)
	}
	p.Name = from.Name + ":" + name
	return r.make(p), nil
}

// fill returns the text of a template.
func fill(t claimant, parts []string) (string, error) {
	if len(parts) == 1 {
		return parts[0], nil
	}
	var b strings.Builder
	for i, part := range parts {
		if i%2 == 0 {
			b.WriteString(part)
			continue
		}
		text, ok := t.claimOne(part)
		if !ok || text == "" {
			return "", fmt.Errorf("the claim %s is missing, or not one text", part)
		}
		b.WriteString(text)
	}
	return b.String(), nil
}

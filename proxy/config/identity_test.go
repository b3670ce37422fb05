package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/config"
)

const (
	okta  = "[[issuers]]\nname = \"okta\"\nurl = \"https://acme.example\"\naudience = \"sluice\"\n"
	every = "[[identities]]\nissuer = \"okta\"\nname = \"{sub}\"\n"
)

func TestIdentityErrors(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"no audience", "[[issuers]]\nname = \"o\"\nurl = \"https://x.example\"\n", "1:3: issuers[0].audience: is missing: without an audience, tokens for other services would be accepted"},
		{"plain HTTP", "[[issuers]]\nname = \"o\"\nurl = \"http://x.example\"\naudience = \"a\"\n", "3:7: issuers[0].url: \"http://x.example\": must start with https://, because whoever can change the keys in transit can sign tokens"},
		{"plain HTTP for keys", okta + "jwks = \"http://x.example/keys\"\n", "5:8: issuers[0].jwks: \"http://x.example/keys\": must start with https://, because whoever can change the keys in transit can sign tokens"},
		{"no URL", "[[issuers]]\nname = \"o\"\nurl = \"acme\"\naudience = \"a\"\n", "3:7: issuers[0].url: \"acme\" is not a valid URL"},
		{"jwks without a file", okta + "jwks = { }\n", "5:8: issuers[0].jwks.file: is missing"},
		{"the same URL twice", okta + "[[issuers]]\nname = \"other\"\nurl = \"https://acme.example\"\naudience = \"b\"\n", "7:7: issuers[1].url: \"https://acme.example\" is already the url of issuers[0]; list several audiences there"},
		{"an unknown issuer", okta + "[[identities]]\nissuer = \"otka\"\nname = \"{sub}\"\n", "6:10: identities[0].issuer: unknown issuer \"otka\", did you mean \"okta\"?; declare issuers with [[issuers]]"},
		{"a name without a claim", okta + "[[identities]]\nissuer = \"okta\"\nname = \"sub\"\n", "7:8: identities[0].name: \"sub\" contains no claim, so that all tokens would be one principal; write a claim in braces, such as \"{sub}\""},
		{"braces", okta + "[[identities]]\nissuer = \"okta\"\nname = \"{sub\"\n", "7:8: identities[0].name: \"{sub\" has braces that do not match; write claims as in \"{sub}\""},
		{"empty braces", okta + "[[identities]]\nissuer = \"okta\"\nname = \"{}\"\n", "7:8: identities[0].name: \"{}\" names no claim in its braces"},
		{"an unknown team", okta + every + "team = \"red\"\n", "8:8: identities[0].team: unknown team \"red\"; declare teams with [[teams]]"},
		{"team_default without a claim", "[[teams]]\nname = \"red\"\n" + okta + every + "team = \"red\"\nteam_default = \"red\"\n", "11:16: identities[0].team_default: can never apply: team contains no claim"},
		{"a pseudonym without a salt", okta + every + "pseudonym = true\n", "8:13: identities[0].pseudonym: needs salt in [router], which must be the same for all gateways"},
		{"authorization without on_failure", okta + "[authorization]\nurl = \"https://a.example\"\n", "5:2: authorization.on_failure: is missing"},
		{"authorization over plain HTTP", okta + "[authorization]\nurl = \"http://a.example\"\non_failure = \"deny\"\n", "6:7: authorization.url: \"http://a.example\": must start with https://, because whoever can change verdicts in transit can let anybody in"},
		{"authorization of nobody", "[server]\nauth = \"none\"\n[authorization]\nurl = \"https://a.example\"\non_failure = \"deny\"\n", " authorization: can never apply: server.auth is \"none\""},
		{"an empty condition", okta + every + "when = { claim = { groups = [] } }\n", "8:29: identities[0].when.claim.groups: must not be empty: nothing would match"},
		{"an unknown condition", okta + every + "when = { group = [\"x\"] }\n", "8:10: identities[0].when.group: unknown key"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := config.Parse("", []byte(c.text), config.Options{})
			var got string
			for _, e := range errorsOf(err) {
				if got = e; got == c.want {
					return
				}
			}
			t.Errorf("got %v\nwant %s", err, c.want)
		})
	}
}

func errorsOf(err error) (texts []string) {
	list, _ := err.(config.Errors)
	for _, e := range list {
		e.File = ""
		texts = append(texts, strings.TrimPrefix(e.Error(), ":"))
	}
	return texts
}

func TestIdentities(t *testing.T) {
	cfg, err := config.Parse("gateway.toml", []byte("[server]\nlisten = \":8080\"\n"+okta+"stale = \"1h\"\n"+every+`
		when = { claim = { groups = ["ai-*"] } }
		limits = { requests_per_minute = 60 }
		`), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Server.Auth != config.AuthKeys {
		t.Errorf("auth is %q with an issuer and no key", cfg.Server.Auth)
	}
	d := cfg.Identities[0]
	if len(d.Claims) != 1 || d.Claims[0].Claim != "groups" || d.Claims[0].Values[0] != "ai-*" || d.Limits.RequestsPerMinute != 60 || d.Models[0] != "*" {
		t.Errorf("got %+v", d)
	}
	// Names of principals can be used in conditions and filters.
	routed := okta + every + "[providers.p]\nplugin = \"mock\"\n[[models]]\nid = \"m\"\ntargets = [{ provider = \"p\", when = { key = [%q] } }, { provider = \"p\", model = \"n\" }]\n[[keys]]\nname = \"k\"\nsecret = \"sk-abcdefgh\"\n"
	for pattern, ok := range map[string]bool{"okta:*": true, "okta:alice": true, "okt*": true, "*": true, "google:alice": false, "nobody": false} {
		_, err := config.Parse("gateway.toml", fmt.Appendf(nil, routed, pattern), config.Options{Bundled: []string{"mock"}})
		if (err == nil) != ok {
			t.Errorf("when = { key = [%q] }: %v", pattern, err)
		}
	}
}

package config_test

import (
	"strings"
	"testing"
)

func TestUsers(t *testing.T) {
	const text = `
[[teams]]
name = "t"
limits = { requests_per_minute = 50 }
[[keys]]
name   = "k"
secret = "sk-0123456789"
team   = "t"
users  = { %s }
[providers.p]
plugin = "openai"
base_url = "http://localhost"
[[models]]
id      = "m"
pricing = { input = 1, output = 1 }
targets = [{ provider = "p", model = "m" }]
`
	for users, want := range map[string]string{
		`from = "X-User-ID"`: "",
		`from = "body", required = true, max = 5, budgets = [{ usd = 1, per = "day" }]`: "",
		``:                                "keys[0].users.from: is missing",
		`from = "a b"`:                    `want the name of a header such as "x-user-id", or "body"`,
		`from = "Cookie"`:                 "the header carries credentials",
		`from = "x-api-key"`:              "the header carries credentials",
		`from = "body", max = 0`:          "keys[0].users.max",
		`from = "body", pseudonym = true`: "keys[0].users.pseudonym: needs salt in [router]",
		`from = "body", header = "x"`:     "keys[0].users.header: unknown key",
		`from = "body", limits = { requests_per_minute = 60 }`: "keys[0].users.limits.requests_per_minute: can never apply: it is more than the 50 of the team t",
	} {
		cfg, err := parse(strings.Replace(text, "%s", users, 1))
		switch {
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: got %v, want %q", users, err, want)
		case want == "" && err != nil:
			t.Errorf("%s: %v", users, err)
		case want == "":
			u := cfg.Keys[0].Users
			if u.Header != "x-user-id" && (u.Header != "" || !u.Required || u.Max != 5 || len(u.Budgets) != 1 || !cfg.Budgeted()) {
				t.Errorf("%s: got %+v", users, u)
			}
		}
	}
}

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

// TestConditionsOnClients checks the conditions about who asks.
func TestConditionsOnClients(t *testing.T) {
	const text = `
[router]
reads = ["header:x-tier"]
[[issuers]]
name = "i"
url = "https://i.example.com"
audience = "a"
[[identities]]
issuer = "i"
name = "{sub}"
[providers.p]
plugin = "openai"
base_url = "http://localhost"
[[models]]
id      = "m"
targets = [{ provider = "p", when = { %s } }]
`
	for when, want := range map[string]string{
		`header = { "X-Tier" = ["gold"] }`:     "",
		`claim = { groups = ["a*"] }`:          "",
		`metadata = { tier = ["gold"] }`:       "",
		`parameter = { temperature = [0, 1] }`: "",
		`budget_left = [0, 0.1]`:               "",
		`header = { "x-plan" = ["gold"] }`:     `is not in reads of [router]; add "header:x-plan"`,
		`header = { }`:                         "must not be empty; write a header",
		`claim = { groups = [] }`:              "must not be empty",
		`metadata = { tier = "gold" }`:         "must be an array",
		`parameter = { temprature = [0, 1] }`:  `did you mean "temperature"`,
		`parameter = { temperature = [1] }`:    "must be [from, to]",
		`parameter = { seed = [2, 1] }`:        "must be [from, to]",
		`parameter = { seed = ["1", 2] }`:      "must be a number",
		`budget_left = [0, 2]`:                 "must be shares from 0 to 1",
	} {
		cfg, err := parse(strings.Replace(text, "%s", when, 1))
		switch {
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: got %v, want %q", when, err, want)
		case want == "" && err != nil:
			t.Errorf("%s: %v", when, err)
		case want == "" && strings.HasPrefix(when, "claim") && len(cfg.ClaimNames()) != 1:
			t.Errorf("%s: got claims %q", when, cfg.ClaimNames())
		}
	}
}

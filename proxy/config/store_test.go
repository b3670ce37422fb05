package config_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/proxytest/certtest"
)

// shared is the configuration spending with a store, whose URL is on the 5th line.
var shared = strings.Replace(spending, "[store]\n", "[store]\nurl = \"redis://user:pass%2fword@redis.internal:6379/3\"\n", 1)

func TestStore(t *testing.T) {
	c, err := parseBudgets(shared)
	if err != nil {
		t.Fatal(err)
	}
	want := config.Store{
		Keep: 720 * time.Hour, OnFailure: config.StoreServe, Zone: c.Store.Zone,
		URL: "redis://user:pass%2fword@redis.internal:6379/3", Prefix: "sluice", Timeout: 50 * time.Millisecond, Share: 0.02, Lease: 10 * time.Second,
	}
	if c.Store != want {
		t.Errorf("store %+v, want %+v", c.Store, want)
	}
	if d := cmp.Diff([]string{"pass/word", "pass%2fword"}, c.Store.Secrets()); d != "" {
		t.Errorf("secrets:\n%s", d)
	}
	if !c.Shares() {
		t.Error("nothing is shared")
	}
	if got := c.Teams[0].Limits.WhenDown; got != config.DownLocal {
		t.Errorf("limits without when_down: %q", got)
	}
	if got := c.Keys[0].Budgets[0].WhenDown; got != config.DownShare {
		t.Errorf("budget without when_down: %q", got)
	}

	alone, err := parseBudgets(spending)
	if err != nil {
		t.Fatal(err)
	}
	if alone.Shares() || alone.Store.Secrets() != nil || alone.Teams[0].Limits.WhenDown != config.NoStore || alone.Keys[0].Budgets[0].WhenDown != config.NoStore {
		t.Errorf("without a store: %+v, %+v", alone.Teams[0].Limits, alone.Keys[0].Budgets)
	}

	c, err = parseBudgets(strings.NewReplacer(
		`limits  = { concurrent = 3 }`, `limits  = { concurrent = 3, shared = false }`,
		`limits  = { tokens_per_minute = 7 }`, `limits  = { tokens_per_minute = 7, when_down = "deny" }`,
		`{ usd = 5, per = "week" }`, `{ usd = 5, per = "week", shared = false }`,
		`{ usd = 1, per = "hour" }`, `{ usd = 1, per = "hour", when_down = "local" }`,
	).Replace(shared))
	if err != nil {
		t.Fatal(err)
	}
	p, m := c.Providers[0], c.Models[0]
	if p.Limits.WhenDown != config.NoStore || p.Budgets[0].WhenDown != config.NoStore {
		t.Errorf("not shared: %+v, %+v", p.Limits, p.Budgets)
	}
	if m.Limits.WhenDown != config.DownDeny || m.Budgets[0].WhenDown != config.DownLocal {
		t.Errorf("shared: %+v, %+v", m.Limits, m.Budgets)
	}
	if text := c.Warnings.Error(); !strings.Contains(text, "models[0].budgets: budgets[0]: while the store is down, each gateway can spend all of it") {
		t.Errorf("warnings %s", text)
	}
}

// TestStoreURLs checks which URLs are valid. No error shows the URL, which contains a password.
func TestStoreURLs(t *testing.T) {
	for _, c := range []struct{ url, want string }{
		{"redis://h", ""},
		{"redis://:opensesame@h:6379/0", ""},
		{"rediss://user:opensesame@[::1]:6380?db=7", ""},
		{"redis://h:7000?addr=h:7001&addr=i", ""},
		{"rediss://:opensesame@h:26379/2?addr=i:26379&master_set=mymaster", ""},
		{"unix:///run/redis.sock?db=1", ""},
		{"", ""},
		{"opensesame", `must begin with "redis://", "rediss://" for TLS, or "unix://"`},
		{"http://opensesame", `must begin with "redis://", "rediss://" for TLS, or "unix://"`},
		{"redis://:opensesame@", `has no host; write one such as "redis://HOST:6379"`},
		{"redis://:opensesame@h:6379/x", `must end with the number of a database, as in "redis://HOST:6379/0", or with the port`},
		{"redis://:opensesame@h:6379/70000", `must end with the number of a database, as in "redis://HOST:6379/0", or with the port`},
		{"redis://:opensesame@h?db=-1", `must have the number of a database as db`},
		{"redis://:opensesame@h?mastername=m", `has an unknown parameter; want addr, db or master_set`},
		{"redis://:opensesame@h?skip_verify=true", `has an unknown parameter; want addr, db or master_set`},
		{"redis://:opensesame@h?%zz", `has parameters that are not valid`},
		{"redis://:open#sesame@h", `is not a URL; write one such as "redis://:PASSWORD@HOST:6379", with characters of the password other than letters and digits encoded as %XX`},
		{"redis://:opensesame@h/0#x", `must not have a part after #; in a password it is %23`},
		{"redis://:open/sesame@h", `is not a URL; write one such as "redis://:PASSWORD@HOST:6379", with characters of the password other than letters and digits encoded as %XX`},
		{"unix://opensesame", `must have the path of a socket, such as "unix:///run/redis.sock"`},
		{"unix:///opensesame?master_set=m", `has parameters that a socket cannot have`},
		{"redis://:open sesame@h", `has a space, a line break or another character that is not allowed in keys`},
	} {
		text := strings.Replace(shared, "redis://user:pass%2fword@redis.internal:6379/3", c.url, 1)
		_, err := parseBudgets(text)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.url, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), "gateway.toml:5:7: store.url: "+c.want)):
			t.Errorf("%s: %v, want %s", c.url, err, c.want)
		}
		if err != nil && (strings.Contains(err.Error(), "open") || strings.Contains(err.Error(), "sesame")) {
			t.Errorf("the error shows the password: %v", err)
		}
	}
}

// TestStoreURLIsNotShown checks that Config.Values does not contain the password, and that options of plugins must not
// contain it.
func TestStoreURLIsNotShown(t *testing.T) {
	for name, line := range map[string]string{
		"text":     `url = "redis://:opensesame@h"`,
		"variable": `url = "redis://:${PASSWORD}@h"`,
		"file":     `url = { file = "url.txt" }`,
	} {
		c, err := config.Parse("gateway.toml", []byte("[store]\n"+line), config.Options{
			Values: true,
			Env:    func(string) (string, bool) { return "opensesame", true },
			ReadFile: func(name string) ([]byte, error) {
				if name != "url.txt" {
					return nil, os.ErrNotExist
				}
				return []byte("redis://:opensesame@h\n"), nil
			},
		})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if c.Store.URL.Reveal() != "redis://:opensesame@h" || !slices.Equal(c.Store.Secrets(), []string{"opensesame"}) {
			t.Errorf("%s: URL %q, secrets %q", name, c.Store.URL.Reveal(), c.Store.Secrets())
		}
		for _, v := range c.Values {
			if strings.Contains(v.Text, "opensesame") || name != "file" && v.Key == "store.url" && v.Text != "[redacted]" {
				t.Errorf("%s: %s = %s", name, v.Key, v.Text)
			}
		}
	}
	_, err := config.Parse("gateway.toml", []byte("[store]\nurl = { file = \"url.txt\" }"), config.Options{ReadFile: func(string) ([]byte, error) { return nil, errors.New("not there") }})
	if err == nil || !strings.Contains(err.Error(), "store.url.file: ") {
		t.Errorf("missing file: %v", err)
	}
}

// TestStoreCA checks the file with the store's certificate authority.
func TestStoreCA(t *testing.T) {
	good := string(certtest.Valid(t).Cert)
	for _, c := range []struct{ name, url, ca, want string }{
		{"certificate", "rediss://h", good, ""},
		{"no certificate", "rediss://h", "x", "gateway.toml:3:6: store.ca: \"ca.pem\": contains no PEM certificate"},
		{"missing file", "rediss://h", "", "gateway.toml:3:6: store.ca: \"ca.pem\": file does not exist"},
		{"without TLS", "redis://h", good, `gateway.toml:3:6: store.ca: can never apply: the URL does not begin with "rediss://"`},
	} {
		cfg, err := config.Parse("gateway.toml", []byte("[store]\nurl = \""+c.url+"\"\nca = \"ca.pem\"\n"), config.Options{ReadFile: func(name string) ([]byte, error) {
			if c.ca == "" {
				return nil, os.ErrNotExist
			}
			return []byte(c.ca), nil
		}})
		switch {
		case c.want == "" && (err != nil || cfg.Store.CA != "ca.pem"), c.want != "" && (err == nil || strings.TrimSpace(err.Error()) != c.want):
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

// TestSharingThatCanNeverApply checks that shared or when_down without any effect is an error.
func TestSharingThatCanNeverApply(t *testing.T) {
	for _, c := range []struct{ name, text, old, new, want string }{
		{"when_down without a store", spending, `{ concurrent = 3 }`, `{ concurrent = 3, when_down = "deny" }`, "18:41: providers.p.limits.when_down: can never apply: store.url is not set"},
		{"when_down of a budget without a store", spending, `per = "week" }`, `per = "week", when_down = "deny" }`, "19:49: providers.p.budgets[0].when_down: can never apply: store.url is not set"},
		{"shared without a store", spending, `{ concurrent = 3 }`, `{ concurrent = 3, shared = true }`, "18:38: providers.p.limits.shared: can never apply: store.url is not set"},
		{"when_down with shared = false", shared, `{ concurrent = 3 }`, `{ concurrent = 3, shared = false, when_down = "deny" }`, "19:57: providers.p.limits.when_down: can never apply: shared is false"},
		{"when_down without a limit", shared, `{ concurrent = 3 }`, `{ when_down = "deny" }`, "19:25: providers.p.limits.when_down: can never apply: no limit is set"},
		{"invalid when_down", shared, `{ concurrent = 3 }`, `{ concurrent = 3, when_down = "refuse" }`, `19:41: providers.p.limits.when_down: "refuse" is invalid: want deny, share or local`},
		{"prefix with a brace, which would end the hash tag", shared, "[store]\n", "[store]\nprefix = \"a}\"\n", `5:10: store.prefix: "a}": a name has 1 to 64 letters, digits, '.', '_' or '-', and starts with a letter or digit`},
		{"[redis] table", shared, "[store]\n", "[redis]\nhost = \"h\"\n[store]\n", `4:2: redis: unknown key; write [store] with url = "redis://:PASSWORD@HOST:6379"`},
		{"password member", shared, "[store]\n", "[store]\npassword = \"opensesame\"\n", `5:1: store.password: unknown key; write url = "redis://:PASSWORD@HOST:6379"`},
		{"other name for when_down", shared, `{ concurrent = 3 }`, `{ concurrent = 3, fail_open = true }`, `19:29: providers.p.limits.fail_open: unknown key, did you mean "when_down"?`},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := strings.Replace(c.text, c.old, c.new, 1)
			if text == c.text {
				t.Fatal("nothing was replaced")
			}
			_, err := parseBudgets(text)
			if err == nil || strings.TrimSpace(err.Error()) != "gateway.toml:"+c.want {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
	c, err := parseBudgets("[store]\nurl = \"redis://h\"\n")
	if err != nil || len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0].Error(), "gateway.toml:2:7: store.url: the store is not used: no limits or budgets are shared") {
		t.Errorf("unused store: %v, warnings %v", err, c.Warnings)
	}
	// A URL from a variable that is set in production only must not invalidate the rest of the file elsewhere.
	c, err = parseBudgets(strings.NewReplacer("redis://user:pass%2fword@redis.internal:6379/3", "${REDIS_URL:-}", `{ concurrent = 3 }`, `{ concurrent = 3, when_down = "deny" }`).Replace(shared))
	if err != nil || c.Shares() || c.Providers[0].Limits.WhenDown != config.NoStore {
		t.Errorf("unset URL: %v", err)
	}
}

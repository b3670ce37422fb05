package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gateway/sluice/proxy/config"
)

func TestAdmin(t *testing.T) {
	const (
		usual = "127.0.0.1:8081"
		demo  = "[providers.demo]\nplugin = \"demo\"\n"
		own   = " is the address of [server]; use another one for [admin]"
		open  = " is reachable from other machines: anyone who can connect can read metrics and status; /requests is off without token"
	)
	for _, c := range []struct {
		name, text string
		want       config.Admin
		problems   string // errors or warnings
	}{
		{"no table", "", config.Admin{Listen: usual, Default: true}, ""},
		{"empty", "[admin]\n", config.Admin{Listen: usual, Default: true}, ""},
		{"default, set explicitly", "[admin]\nlisten = \"127.0.0.1:8081\"\n", config.Admin{Listen: usual, Default: true}, ""},
		{"another address", "[admin]\nlisten = \"[::1]:9000\"\n", config.Admin{Listen: "[::1]:9000"}, ""},
		{"disabled", "[admin]\nlisten = \"\"\n", config.Admin{}, ""},
		{"disabled by a variable", "[admin]\nlisten = \"${UNSET:-}\"\n", config.Admin{}, ""},
		{"any free port", "[server]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n", config.Admin{Listen: "127.0.0.1:0"}, ""},
		{"host names", "[admin]\nhosts = [\"Sluice.Internal\", \"metrics\"]\n", config.Admin{Listen: usual, Default: true, Hosts: []string{"sluice.internal", "metrics"}}, ""},

		{"a token", "[admin]\nlisten = \":9000\"\ntoken = \"${T:-correct-horse}\"\nrequests = 100\n", config.Admin{Listen: ":9000", Token: "correct-horse", Requests: 100}, ""},
		{"a token for metrics", "[admin]\nlisten = \":9000\"\ntoken = \"${T:-correct-horse}\"\nmetrics_token = true\nrequests = 0\n", config.Admin{Listen: ":9000", Token: "correct-horse", MetricsToken: true}, ""},
		{"no recent requests", "[admin]\nrequests = 0\n", config.Admin{Listen: usual, Default: true}, ""},

		{"an empty token", "[admin]\ntoken = \"\"\n", config.Admin{}, "f:2:9: admin.token: is empty"},
		{"metrics without a token", "[admin]\nmetrics_token = true\n", config.Admin{}, "f:2:17: admin.metrics_token: needs a token: set token in [admin]"},
		{"too many requests", "[admin]\nrequests = 65537\n", config.Admin{}, "f:2:12: admin.requests: must be from 0 to 65536"},
		{"not an address", "[admin]\nlisten = \"8081\"\n", config.Admin{}, `f:2:10: admin.listen: "8081": want host:port, such as "127.0.0.1:8080" or ":8080"`},
		{"invalid host names", "[admin]\nhosts = [\"a\", \"b:80\", \"http://c\"]\n", config.Admin{}, "f:2:15: admin.hosts: \"b:80\": must be a name without a port\nf:2:23: admin.hosts: \"http://c\": must be a name without a port"},
		{"unknown key", "[admin]\nlissten = \"\"\n", config.Admin{}, `f:2:1: admin.lissten: unknown key, did you mean "listen"?`},
		{"wrong types", "[admin]\nlisten = 8081\nhosts = \"a\"\n", config.Admin{}, "f:2:10: admin.listen: must be a string, not an integer\nf:3:9: admin.hosts: must be an array, not a string"},

		{"reachable from other machines", "[admin]\nlisten = \"0.0.0.0:9000\"\n", config.Admin{Listen: "0.0.0.0:9000"}, `f:2:10: admin.listen: "0.0.0.0:9000"` + open},
		{"reachable, by name", "[admin]\nlisten = \"gateway.internal:9000\"\n", config.Admin{Listen: "gateway.internal:9000"}, `f:2:10: admin.listen: "gateway.internal:9000"` + open},
		{"all addresses", "[admin]\nlisten = \":9000\"\n", config.Admin{Listen: ":9000"}, `f:2:10: admin.listen: ":9000"` + open},

		{"the server's address", "[server]\nlisten = \"127.0.0.1:9000\"\n[admin]\nlisten = \"127.0.0.1:9000\"\n", config.Admin{}, `f:4:10: admin.listen: "127.0.0.1:9000"` + own},
		{"the server's default address", "[admin]\nlisten = \"127.0.0.1:8080\"\n", config.Admin{}, `f:2:10: admin.listen: "127.0.0.1:8080"` + own},
		{"part of the server's address", "[server]\nlisten = \":9000\"\nauth = \"none\"\n[admin]\nlisten = \"127.0.0.1:9000\"\n", config.Admin{}, `f:5:10: admin.listen: "127.0.0.1:9000"` + own},
		{"includes the server's address", "[server]\nlisten = \"127.0.0.1:9000\"\n[admin]\nlisten = \"[::]:9000\"\n", config.Admin{}, `f:4:10: admin.listen: "[::]:9000"` + own},
		{"the server's address by name", "[server]\nlisten = \"127.0.0.1:9000\"\n[admin]\nlisten = \"localhost:9000\"\n", config.Admin{}, `f:4:10: admin.listen: "localhost:9000"` + own},
		{"same port at another address", "[server]\nlisten = \"127.0.0.1:9000\"\n[admin]\nlisten = \"[::1]:9000\"\n", config.Admin{Listen: "[::1]:9000"}, ""},
		{"the server has the default", "[server]\nlisten = \"127.0.0.1:8081\"\n[admin]\nhosts = [\"a\"]\n", config.Admin{Hosts: []string{"a"}},
			`f: admin.listen: server.listen is "127.0.0.1:8081", the default address of [admin], which is disabled; choose another one`},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg, err := config.Parse("f", []byte(c.text+demo), config.Options{Bundled: bundled, Now: today})
			problems := ""
			if err != nil {
				problems = err.Error()
			} else {
				if len(cfg.Warnings) > 0 {
					problems = cfg.Warnings.Error()
				}
				if c.want.Requests == 0 && !strings.Contains(c.text, "requests = 0") {
					c.want.Requests = 4096
				}
				if diff := cmp.Diff(c.want, cfg.Admin); diff != "" {
					t.Errorf("admin (-want +got):\n%s", diff)
				}
			}
			if problems != c.problems {
				t.Errorf("got  %s\nwant %s", problems, c.problems)
			}
		})
	}
	given, err := config.Parse("f", []byte(demo), config.Options{Bundled: bundled, Now: today, Listen: usual})
	if err != nil || given.Admin.Listen != "" || len(given.Warnings) != 1 {
		t.Errorf("serve --listen with the default admin address: %s", fmt.Sprint(given, err))
	}
}

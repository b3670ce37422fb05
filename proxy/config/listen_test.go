package config_test

import (
	"testing"

	"github.com/sluice-gateway/sluice/proxy/config"
)

// TestListenOverridesFile checks that the override applies before anything is derived from the address.
func TestListenOverridesFile(t *testing.T) {
	const (
		inside  = "[server]\nlisten = \"127.0.0.1:8080\"\n"
		outside = "[server]\nlisten = \"0.0.0.0:8080\"\n"
		key     = "[[keys]]\nname = \"a\"\nsecret = \"short\"\n"
		open    = " is reachable from other machines, but no [[keys]] are configured; add a key, or set auth = \"none\" to allow anyone"
	)
	for _, c := range []struct {
		name, text, listen string
		want               string // the address or the errors
		warnings           int
	}{
		{"not overridden", inside, "", "127.0.0.1:8080", 0},
		{"overridden", inside, "[::1]:9000", "[::1]:9000", 0},
		{"only the override", "", "localhost:0", "localhost:0", 0},
		{"reachable without keys", inside, ":8080", `f: server.auth: ":8080"` + open, 0},
		{"reachable without keys, only the override", "", "0.0.0.0:80", `f: server.auth: "0.0.0.0:80"` + open, 0},
		{"overridden with loopback", outside, "127.0.0.1:0", "127.0.0.1:0", 0},
		{"reachable without keys, not overridden", outside, "", `f:2:10: server.auth: "0.0.0.0:8080"` + open, 0},
		{"reachable with a weak key", inside + key, ":8080", ":8080", 1},
		{"loopback with a weak key", outside + key, "127.0.0.1:8080", "127.0.0.1:8080", 0},
		{"not an address", inside, "8080", `f: server.listen: "8080": want host:port, such as "127.0.0.1:8080" or ":8080"`, 0},
		{"the file's address is also checked", "[server]\nlisten = \"x\"\n", ":0", `f:2:10: server.listen: "x": want host:port, such as "127.0.0.1:8080" or ":8080"`, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg, err := config.Parse("f", []byte(c.text), config.Options{Bundled: bundled, Now: today, Listen: c.listen})
			if err != nil {
				if err.Error() != c.want {
					t.Errorf("got  %v\nwant %s", err, c.want)
				}
				return
			}
			if cfg.Server.Listen != c.want || len(cfg.Warnings) != c.warnings {
				t.Errorf("address %q, warnings %v", cfg.Server.Listen, cfg.Warnings)
			}
		})
	}
	if err := config.CheckListen("127.0.0.1:65536"); err == nil {
		t.Error("a port above 65535 is accepted")
	}
}

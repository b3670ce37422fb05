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
		want               string // the address, or the errors
		warnings           int
	}{
		{"none given", inside, "", "127.0.0.1:8080", 0},
		{"given", inside, "[::1]:9000", "[::1]:9000", 0},
		{"given, and none in the file", "", "localhost:0", "localhost:0", 0},
		{"to the outside without keys", inside, ":8080", `f: server.auth: ":8080"` + open, 0},
		{"to the outside without keys and without an address in the file", "", "0.0.0.0:80", `f: server.auth: "0.0.0.0:80"` + open, 0},
		{"back inside", outside, "127.0.0.1:0", "127.0.0.1:0", 0},
		{"the file's own address to the outside", outside, "", `f:2:10: server.auth: "0.0.0.0:8080"` + open, 0},
		{"to the outside with a weak key", inside + key, ":8080", ":8080", 1},
		{"inside with a weak key", outside + key, "127.0.0.1:8080", "127.0.0.1:8080", 0},
		{"no address", inside, "8080", `f: server.listen: "8080": want host:port, such as "127.0.0.1:8080" or ":8080"`, 0},
		{"the file's address is checked all the same", "[server]\nlisten = \"x\"\n", ":0", `f:2:10: server.listen: "x": want host:port, such as "127.0.0.1:8080" or ":8080"`, 0},
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
				t.Errorf("listens on %q, with the warnings %v", cfg.Server.Listen, cfg.Warnings)
			}
		})
	}
	if err := config.CheckListen("127.0.0.1:65536"); err == nil {
		t.Error("a port beyond 65535 is taken")
	}
}

package config_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/config"
)

// TestListenOverridesFile checks that the override applies before anything is derived from the address.
func TestListenOverridesFile(t *testing.T) {
	const (
		inside  = "[server]\nlisten = \"127.0.0.1:8080\"\n"
		outside = "[server]\nlisten = \"0.0.0.0:8080\"\n"
		key     = "[[keys]]\nname = \"a\"\nsecret = \"short\"\n"
		shipped = "[[keys]]\nname = \"a\"\nsecret = \"${SLUICE_KEY:-sk-local}\"\n"
		public  = "keys[0].secret: \"sk-local\" is the public key of the shipped gateway.toml, and \"0.0.0.0:8080\" is reachable from other machines; set SLUICE_KEY to a key from `sluice keys new`, or to sk-local to allow it"
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
		{"loopback with the shipped key", inside + shipped, "", "127.0.0.1:8080", 0},
		{"loopback by IPv6 with the shipped key", inside + shipped, "[::1]:1", "[::1]:1", 0},
		{"reachable with the shipped key", outside + shipped, "", "f:3:3: " + public, 0},
		{"reachable by IPv6 with the shipped key", inside + shipped, "[::]:8080", "f:3:3: " + strings.Replace(public, "0.0.0.0", "[::]", 1), 0},
		{"reachable with the shipped key written out", outside + strings.Replace(shipped, "${SLUICE_KEY:-sk-local}", "sk-local", 1), "", "f:3:3: " + public, 0},
		{"reachable with the shipped key's digest", outside + fmt.Sprintf("[[keys]]\nname = \"a\"\ndigest = \"sha256:%x\"\n", sha256.Sum256([]byte("sk-local"))), "", "f:3:3: " + public, 0},
		{"reachable with the shipped key, disabled", outside + shipped + "disabled = true\n", "", "0.0.0.0:8080", 1},
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
	set := func(string) (string, bool) { return "sk-local", true }
	if _, err := config.Parse("f", []byte(outside+shipped), config.Options{Env: set, Now: today}); err != nil {
		t.Errorf("the shipped key, set on purpose: %v", err)
	}
	if err := config.CheckListen("127.0.0.1:65536"); err == nil {
		t.Error("a port above 65535 is accepted")
	}
}

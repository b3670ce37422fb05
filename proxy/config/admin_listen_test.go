package config_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/config"
)

// TestAdminListen reads admin.listen from files that are otherwise invalid.
func TestAdminListen(t *testing.T) {
	const standard = "127.0.0.1:8081"
	env := func(name string) (string, bool) { return "127.0.0.1:7", name == "ADMIN" }
	for _, c := range []struct{ name, text, want, err string }{
		{"not set", "[server]\nlisten = \":1\"\n", standard, ""},
		{"set", "[admin]\nlisten = \"127.0.0.1:9\"\n", "127.0.0.1:9", ""},
		{"disabled", "[admin]\nlisten = \"\"\n", "", ""},
		{"after a byte order mark", "\ufeff[admin]\nlisten = \"127.0.0.1:9\"\n", "127.0.0.1:9", ""},
		{"variable", "[admin]\nlisten = \"${ADMIN}\"\n", "127.0.0.1:7", ""},
		{"unset variable", "[admin]\nlisten = \"${NONE}\"\n", "", "f:2:11: admin.listen: NONE is not set; write ${NONE:-} if it is optional"},
		{"not a string", "[admin]\nlisten = 9\n", "", "f:2:10: admin.listen: must be a string, not an integer"},
		{"unset variable elsewhere", "[[keys]]\nsecret = \"${NONE}\"\n[admin]\nlisten = \"127.0.0.1:9\"\n", "127.0.0.1:9", ""},
		{"unknown keys elsewhere", "what = 1\n[admin]\nlisten = \"127.0.0.1:9\"\nhow = 1\n", "127.0.0.1:9", ""},
		{"before a syntax error", "[admin]\nlisten = \"127.0.0.1:9\"\n[[keys]\n", "127.0.0.1:9", ""},
		{"after a syntax error", "[[keys]\n[admin]\nlisten = \"127.0.0.1:9\"\n", standard, ""},
		{"empty file", "", standard, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			if err := os.WriteFile("f", []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := config.AdminListen("f", env)
			if text := errorText(err); got != c.want || text != c.err {
				t.Errorf("got %q, error %q; want %q, error %q", got, text, c.want, c.err)
			}
		})
	}
	if got, err := config.AdminListen(filepath.Join(t.TempDir(), "none"), env); got != standard || err != nil {
		t.Errorf("without a file: %q, %v", got, err)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

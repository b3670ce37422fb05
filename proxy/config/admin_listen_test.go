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
		{"not said", "[server]\nlisten = \":1\"\n", standard, ""},
		{"said", "[admin]\nlisten = \"127.0.0.1:9\"\n", "127.0.0.1:9", ""},
		{"nowhere", "[admin]\nlisten = \"\"\n", "", ""},
		{"after a byte order mark", "\ufeff[admin]\nlisten = \"127.0.0.1:9\"\n", "127.0.0.1:9", ""},
		{"in a variable", "[admin]\nlisten = \"${ADMIN}\"\n", "127.0.0.1:7", ""},
		{"in a variable that is missing", "[admin]\nlisten = \"${NONE}\"\n", "", "f:2:11: admin.listen: NONE is not set; write ${NONE:-} if it is optional"},
		{"no string", "[admin]\nlisten = 9\n", "", "f:2:10: admin.listen: must be a string, not an integer"},
		{"beside a missing variable", "[[keys]]\nsecret = \"${NONE}\"\n[admin]\nlisten = \"127.0.0.1:9\"\n", "127.0.0.1:9", ""},
		{"beside unknown keys", "what = 1\n[admin]\nlisten = \"127.0.0.1:9\"\nhow = 1\n", "127.0.0.1:9", ""},
		{"before an error of the syntax", "[admin]\nlisten = \"127.0.0.1:9\"\n[[keys]\n", "127.0.0.1:9", ""},
		{"after an error of the syntax", "[[keys]\n[admin]\nlisten = \"127.0.0.1:9\"\n", standard, ""},
		{"not there", "", standard, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			if err := os.WriteFile("f", []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := config.AdminListen("f", env)
			if said := errorText(err); got != c.want || said != c.err {
				t.Errorf("%q, %q; want %q, %q", got, said, c.want, c.err)
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

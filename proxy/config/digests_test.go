package config_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
)

func TestDigests(t *testing.T) {
	digest := func(c string) string { return "sha256:" + strings.Repeat(c, 64) }
	parse := func(line string) (*config.Config, error) {
		return config.Parse("", []byte("[[keys]]\nname = \"k\"\n"+line+"\n[[keys]]\nname = \"other\"\nsecret = \"sk-abcdefgh\"\n"), config.Options{Now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)})
	}
	cfg, err := parse(fmt.Sprintf("digests = [{ digest = %q, expires = 2027-01-31 }, %q]", digest("a"), digest("b")))
	if err != nil {
		t.Fatal(err)
	}
	k := cfg.Keys[0]
	if len(k.Digests) != 2 || k.Digest != k.Digests[0].Digest || k.Digests[0].Digest[0] != 0xaa || k.Digests[1].Digest[0] != 0xbb ||
		!k.Digests[0].Expires.Equal(time.Date(2027, 1, 31, 0, 0, 0, 0, time.UTC)) || !k.Digests[1].Expires.IsZero() {
		t.Errorf("got %+v", k)
	}
	changed, err := parse(fmt.Sprintf("digests = [{ digest = %q, expires = 2027-02-01 }, %q]", digest("a"), digest("b")))
	if err != nil {
		t.Fatal(err)
	}
	if c := changed.Since(cfg); len(c.Keys.Changed) != 1 || c.Keys.Changed[0] != "k" {
		t.Errorf("another expires: got changes %+v", c)
	}
	for _, c := range []struct{ line, want string }{
		{fmt.Sprintf("digests = [%q]\ndigest = %q", digest("a"), digest("b")), "4:10: keys[0].digest: set digest or digests, not both"},
		{fmt.Sprintf("digests = [%q]\nsecret = \"sk-12345678\"", digest("a")), "4:10: keys[0].secret: set secret or digests, not both"},
		{fmt.Sprintf("digests = [%q, %q]", digest("a"), digest("a")), "3:87: keys[0].digests: the digest is listed twice"},
		{"digests = []", "3:11: keys[0].digests: must have 1 to 8 digests"},
		{"digests = [7]", "3:12: keys[0].digests[0]: must be a digest, or a table with digest and expires, not an integer"},
		{"digests = [\"md5:00\"]", "3:12: keys[0].digests: must be \"sha256:\" and 64 hexadecimal digits"},
		{"digests = [{ expires = 2027-01-31 }]", "3:12: keys[0].digests[0].digest: is missing"},
		{"digests = [{ digest = \"" + digest("a") + "\", expiry = 2027-01-31 }]", "keys[0].digests[0].expiry: unknown key, did you mean \"expires\"?"},
		{"digests = [\"sha256:b3d7d7e7e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5\"]\n[[keys]]\nname = \"third\"\ndigests = [\"sha256:b3d7d7e7e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5\"]", "4:3: keys[1]: has the same secret as keys[0]"},
	} {
		if _, err := parse(c.line); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v\nwant %s", c.line, err, c.want)
		}
	}
}

package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gateway/sluice/proxy/config"
)

func TestDiffBundles(t *testing.T) {
	t.Parallel()
	const old = `
[[teams]]
name = "research"
[[keys]]
name   = "team-a"
digest = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
models = ["gpt-*"]
[[keys]]
name   = "team-b"
digest = "sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"
models = ["*"]
[providers.openai]
plugin = "openai"
auth   = { secret = "${OPENAI_API_KEY}" }
[providers.spare]
plugin   = "openai"
base_url = "https://spare.example.com"
auth     = { secret = "${SPARE_API_KEY}" }
[[models]]
id      = "gpt-5"
pricing = { input = 1.25, output = 10 }
targets = [{ provider = "openai", model = "gpt-5" }, { provider = "spare", model = "gpt-5", priority = 1 }]
[[models]]
id      = "notes"
targets = [{ provider = "openai", model = "gpt-5-mini" }]
`
	const now = `
# The same, in another order and with other spaces, is no difference.
[providers]
openai = { auth = { secret = "${OPENAI_API_KEY}" }, plugin = "openai" }
[providers.spare]
plugin   = "openai"
base_url = "https://other.example.com"
auth     = { secret = "${SPARE_API_KEY}" }
[[keys]]
name   = "team-b"
digest = "sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"
models = ["*"]
[[keys]]
name   = "team-a"
digest = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
models = ["gpt-5", "new"]
limits = { requests_per_minute = 60 }
[router]
strategy = "cheapest"
[[models]]
id      = "gpt-5"
pricing = { input = 2.5, output = 10 }
targets = [{ provider = "openai", model = "gpt-5" }, { provider = "spare", model = "gpt-5.1", priority = 1 }]
[[models]]
id      = "new"
targets = [{ provider = "openai", model = "gpt-5-mini" }, { provider = "spare", model = "x" }]
`
	diff := func(a, b string) string {
		t.Helper()
		text, err := config.DiffBundles(config.BundleText{Name: "old.toml", Content: []byte(a)}, config.BundleText{Name: "new.toml", Content: []byte(b)}, config.Options{Bundled: []string{"openai", "router"}})
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	want := `team research is removed
key team-a: limits: unset → { requests_per_minute = 60 }
key team-a: models: ["gpt-*"] → ["gpt-5", "new"]
provider spare: base_url: "https://spare.example.com" → "https://other.example.com" (models gpt-5, new)
model gpt-5: pricing.input: 1.25 → 2.5 (keys team-b, team-a)
model gpt-5: targets[1].model: "gpt-5" → "gpt-5.1" (keys team-b, team-a)
model new is new (keys team-b, team-a)
model notes is removed (key team-b)
router: unset → { strategy = "cheapest" }
`
	if d := cmp.Diff(want, diff(old, now)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	secret := func(text string) string {
		return "[[keys]]\nname = \"k\"\nsecret = \"sk-canary-0123456789-" + text + "\"\n[router]\nsalt = \"canary-salt-0123456789-" + text + "\"\n" +
			"[providers.up]\nplugin = \"openai\"\nauth = { secret = \"${UP_" + text + "}\" }\n"
	}
	want = `key k: secret: "[redacted]" → "[redacted]"
provider up: auth.secret: "${UP_A}" → "${UP_B}"
router.salt: "[redacted]" → "[redacted]"
`
	if d := cmp.Diff(want, diff(secret("A"), secret("B"))); d != "" {
		t.Errorf("of credentials (-want +got):\n%s", d)
	}
	if got := diff("", secret("A")); strings.Contains(got, "canary") {
		t.Errorf("a credential in %s", got)
	}
	if got := diff(now, now); got != "" {
		t.Errorf("of a bundle with itself: %s", got)
	}
}

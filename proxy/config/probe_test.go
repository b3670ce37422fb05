package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gateway/sluice/proxy/config"
)

// TestProbe checks the table probe of a provider.
func TestProbe(t *testing.T) {
	many := `"m0"`
	for range 16 {
		many += `, "` + strings.Repeat("m", len(many)/4) + `"`
	}
	for _, c := range []struct {
		probe string
		want  *config.Probe
		err   string
	}{
		{`{ read = ["vllm:num_requests_waiting"] }`, &config.Probe{Path: "/metrics", Every: time.Second, Read: []string{"vllm:num_requests_waiting"}}, ""},
		{`{ path = "/x/metrics", every = "500ms", read = ["a", "b_1"] }`, &config.Probe{Path: "/x/metrics", Every: 500 * time.Millisecond, Read: []string{"a", "b_1"}}, ""},
		{`{ }`, nil, "providers.p.probe.read: is missing"},
		{`{ read = [] }`, nil, "is missing"},
		{`{ read = ["1a"] }`, nil, "not the name of a metric"},
		{`{ read = ["a{b=\"c\"}"] }`, nil, "not the name of a metric"},
		{`{ read = ["a", "a"] }`, nil, `"a" is listed twice`},
		{`{ read = [` + many + `] }`, nil, "must not have more than 16 metrics"},
		{`{ read = ["a"], every = "10ms" }`, nil, "must be from"},
		{`{ read = ["a"], path = "metrics" }`, nil, "want a path such as /metrics"},
		{`{ read = ["a"], path = "/*" }`, nil, "want a path such as /metrics"},
		{`{ read = ["a"], interval = "1s" }`, nil, "unknown key"},
	} {
		text := "[providers.p]\npreset = \"vllm\"\nbase_url = \"http://127.0.0.1:1/v1\"\nprobe = " + c.probe + "\n"
		cfg, err := config.Parse("gateway.toml", []byte(text), config.Options{Bundled: []string{"openai", "demo"}, Env: func(string) (string, bool) { return "", false }})
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: error %v, want %q", c.probe, err, c.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.probe, err)
		} else if diff := cmp.Diff(c.want, cfg.Provider("p").Probe); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.probe, diff)
		}
	}
	text := "[providers.p]\nplugin = \"demo\"\nprobe = { read = [\"a\"] }\n"
	if _, err := config.Parse("gateway.toml", []byte(text), config.Options{Bundled: []string{"demo"}}); err == nil || !strings.Contains(err.Error(), "providers.p.probe: needs a base_url") {
		t.Errorf("without an upstream: %v", err)
	}
}

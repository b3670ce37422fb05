package config_test

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
)

// manyKeys returns a configuration with n keys, which have all that is compared with something else: limits, budgets,
// teams, models and expiry.
func manyKeys(n int) []byte {
	var b strings.Builder
	b.WriteString("[providers.openai]\nplugin = \"openai\"\nbase_url = \"https://api.openai.com/v1\"\nauth = { secret = \"sk-provider-0123456789\" }\n")
	for i := range 20 {
		fmt.Fprintf(&b, "[[models]]\nid = \"gpt-%d\"\npricing = { input = 1, output = 2 }\ntargets = [{ provider = \"openai\" }]\n", i)
	}
	for i := range n / 10 {
		fmt.Fprintf(&b, "[[teams]]\nname = \"team-%d\"\nlimits = { concurrent = 100 }\nbudgets = [{ usd = 100, per = \"day\" }]\n", i)
	}
	for i := range n {
		fmt.Fprintf(&b, "[[keys]]\nname = \"client-%d\"\ndigest = \"sha256:%064x\"\nmodels = [\"gpt-*\", \"claude-*\"]\nteam = \"team-%d\"\n", i, i+1, i/10)
		b.WriteString("expires = 2099-01-01\nlimits = { requests_per_minute = 60 }\nbudgets = [{ usd = 1, per = \"day\" }]\n")
	}
	return []byte(b.String())
}

// covers: F14
func TestLoads100000Keys(t *testing.T) {
	if testing.Short() {
		t.Skip("parses a configuration of 27 MB")
	}
	data := manyKeys(100_000)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	c, err := config.Parse("gateway.toml", data, config.Options{Bundled: bundled})
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	allocated := after.TotalAlloc - before.TotalAlloc
	t.Logf("100,000 keys in %s with %d MB", took, allocated>>20)
	if len(c.Keys) != 100_000 || c.Keys[99_999].Name != "client-99999" {
		t.Errorf("%d keys, want 100000", len(c.Keys))
	}
	// Most of the time is spent on clearing, faulting in and marking memory, so allocations are limited, too; the race
	// detector adds a quarter.
	if allocated > 700<<20 {
		t.Errorf("allocated %d MB, want at most 700", allocated>>20)
	}
	// The goal is 2 s for the whole startup. The margin is for the race detector and a busy machine.
	if took > 20*time.Second {
		t.Errorf("took %s, want at most 20s", took)
	}
}

func BenchmarkParseDefaultFile(b *testing.B) {
	data, err := os.ReadFile(defaultFile)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := config.Parse("gateway.toml", data, config.Options{Bundled: bundled}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParse100000Keys(b *testing.B) {
	data := manyKeys(100_000)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := config.Parse("gateway.toml", data, config.Options{Bundled: bundled}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGlob(b *testing.B) {
	g := config.Glob("anthropic/*/sonnet-*-latest")
	id := "anthropic/eu-west-1/sonnet-4-6-latest"
	b.ReportAllocs()
	for b.Loop() {
		if !g.Match(id) {
			b.Fatal("no match")
		}
	}
}

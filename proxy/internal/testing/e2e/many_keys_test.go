package e2e_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// BenchmarkReload100000Keys reports the CPU time of a reload, from parsing the configuration to collecting the garbage
// of the old one.
func BenchmarkReload100000Keys(b *testing.B) {
	for _, c := range []struct {
		name string
		key  func(i int) string
	}{
		{"digests", func(i int) string {
			return fmt.Sprintf("digest = \"sha256:%x\"", sha256.Sum256(fmt.Appendf(nil, "sk-%032d", i)))
		}},
		{"secrets", func(i int) string { return fmt.Sprintf("secret = \"sk-%032d\"", i) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			var text strings.Builder
			text.WriteString(proxytest.Keys)
			for i := range 100_000 {
				fmt.Fprintf(&text, "[[keys]]\nname = \"client-%d\"\n%s\nmodels = [\"gpt-*\", \"claude-*\"]\nexpires = 2099-01-01\nlimits = { requests_per_minute = 60 }\n", i, c.key(i))
			}
			text.WriteString("[providers.demo]\nplugin = \"demo\"\n[[models]]\nid = \"demo\"\ntargets = [{ provider = \"demo\", model = \"demo\" }]\n")
			g := proxytest.Start(b, text.String())
			began := cpu()
			for b.Loop() {
				if err := g.Reload(b, text.String()); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric((cpu()-began).Seconds()/float64(b.N), "cpu-s/reload")
		})
	}
}

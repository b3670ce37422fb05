package filter_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/plugins"
	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/filter"
	"github.com/sluice-gateway/sluice/proxy/internal/openai"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// BenchmarkFilterEvent measures a stream event with the bundled filters in WebAssembly, from the event that a plugin or
// reader returns to the client's bytes. "none" is the same event without a filter.
func BenchmarkFilterEvent(b *testing.B) {
	wasm, err := plugins.FS().ReadFile("all.wasm")
	if err != nil {
		b.Fatal(err)
	}
	h, err := plugin.New(plugin.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer h.Close()
	set, err := h.Load(b.Context(), []plugin.Spec{{Name: "secrets", Wasm: wasm, Bundled: true}, {Name: "blocklist", Wasm: wasm, Bundled: true}})
	if err != nil {
		b.Fatal(err)
	}
	defer set.Close()
	all := map[string]*filter.Filter{}
	for name, settings := range map[string]string{"secrets": `{}`, "blocklist": `{"phrases":["Project X","internal use only"]}`} {
		bound, err := set.Plugin(name).Bind(b.Context(), plugin.BindingConfig{Name: name, Settings: []byte(settings)})
		if err != nil {
			b.Fatal(err)
		}
		all[name] = &filter.Filter{Binding: bound, Config: &config.Filter{
			Plugin: name, Models: []config.Glob{"*"}, Keys: []config.Glob{"*"}, APIs: []string{"chat"}, Response: true,
		}}
	}
	pieces := [][]byte{[]byte(" The"), []byte(" answer"), []byte(" to"), []byte(" your"), []byte(" question"), []byte(" is"), []byte(" 42"), []byte(",")}
	for _, c := range []struct {
		name    string
		filters []*filter.Filter
	}{
		{"none", nil}, {"secrets", []*filter.Filter{all["secrets"]}}, {"blocklist", []*filter.Filter{all["blocklist"]}},
		{"both", []*filter.Filter{all["secrets"], all["blocklist"]}},
	} {
		b.Run(c.name, func(b *testing.B) {
			pl := newPipeline(b, openai.API(), c.filters, true)
			if len(c.filters) == 0 {
				pl.w.Reset(response.Options{Stream: true, ID: "id", Model: "m", Created: 1})
			}
			var batch response.Batch
			n := 0
			b.ReportAllocs()
			began := cpuTime(b)
			for b.Loop() {
				batch.Reset()
				batch.Text(0, abi.EncodingUTF8, pieces[n%len(pieces)])
				n++
				if err := pl.w.Apply(&batch); err != nil {
					b.Fatal(err)
				}
				if err := pl.filtered.Run(b.Context()); err != nil {
					b.Fatal(err)
				}
				pl.w.Consume()
			}
			b.ReportMetric(float64((cpuTime(b)-began).Nanoseconds())/float64(b.N), "cpu-ns/op")
		})
	}
}

// cpuTime returns the CPU time of the process, which other processes affect less than wall-clock time.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

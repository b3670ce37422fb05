package policies_test

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/breaker"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/cost"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/engine"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/modules"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/canary"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/policies"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream/configured"
	"github.com/sluice-gateway/sluice/proxy/plugintest"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

var now = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

// bind loads the bundled plugins and returns the policies of a configuration.
func bind(tb testing.TB, text string) *policies.Set {
	tb.Helper()
	cfg := proxytest.Parse(tb, text)
	host, err := plugin.New(plugin.Options{Engine: engine.Options{CacheDir: proxytest.CacheDir()}})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { host.Close() })
	loaded, err := modules.Load(tb.Context(), host, cfg, modules.Sources{Bundled: proxytest.Bundled(tb)})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(loaded.Close)
	set, err := policies.Bind(tb.Context(), cfg, loaded, configured.Redactor(cfg), policies.Lasting{Registry: new(routing.Registry), Canaries: new(canary.Set)}, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return set
}

// summary is the summary of a request.
type summary struct{ plugin.Summary }

func (s *summary) AppendSummary(dst []byte) []byte { return s.Append(dst) }

func (*summary) ExpectedCost(t *routing.Target, cachedShare float64) cost.Nano {
	return t.Prices.Cost(cost.Tokens{Prompt: 1000, Cached: int64(1000 * cachedShare), Completion: 1024})
}

// chooser is a routing.Chooser of a plugin that is not in a configuration.
type chooser struct{ *plugin.Binding }

func (c chooser) Choose(ctx context.Context, key string, input []byte, n int) ([]int, string, error) {
	return c.ChooseFor(ctx, key, input, n)
}

// load loads a module and returns a router for each of the settings.
func load(tb testing.TB, options engine.Options, name string, wasm []byte, settings ...string) []*routing.Router {
	tb.Helper()
	host, err := plugin.New(plugin.Options{Engine: options})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { host.Close() })
	set, err := host.Load(tb.Context(), []plugin.Spec{{Name: name, Wasm: wasm}})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(set.Close)
	var routers []*routing.Router
	for _, s := range settings {
		b, err := set.Plugin(name).Bind(tb.Context(), plugin.BindingConfig{Name: name, Settings: []byte(s)})
		if err != nil {
			tb.Fatal(err)
		}
		r := &routing.Router{Plugin: name, Chooser: chooser{b}, Reads: []string{"metadata", "header:x-tenant"}}
		r.Parts, r.Compact = b.Reads()
		routers = append(routers, r)
	}
	return routers
}

// headers are the headers of a request.
type headers map[string]string

func (h headers) Peek(name string) []byte { return []byte(h[name]) }

// drawPolicy draws a policy with random targets, and with random measurements of them.
func drawPolicy(t *rapid.T) *routing.Policy {
	p := &routing.Policy{Model: "m", Affinity: config.Affinity{By: rapid.SampledFrom([]config.AffinityBy{config.AffinityNone, config.AffinityConversation, config.AffinityUser}).Draw(t, "affinity")}}
	for i := range rapid.IntRange(2, 5).Draw(t, "targets") {
		target := routing.Target{
			Provider: rapid.SampledFrom([]string{"a", "bb", "größer", ""}).Draw(t, "provider"), Model: rapid.SampledFrom([]string{"m", "large/model"}).Draw(t, "model"),
			Weight: rapid.IntRange(-1, 3).Draw(t, "weight"), Priority: rapid.IntRange(-1, 1).Draw(t, "priority"), Fallback: rapid.Bool().Draw(t, "fallback"),
			CachesPrompts: rapid.Bool().Draw(t, "caches"), Stats: new(routing.Stats), Budget: new(routing.Budget), RetryShare: 0.2,
			Breaker: breaker.Config{Consecutive: 1, Window: time.Minute, Pause: time.Minute, MaxPause: time.Hour},
		}
		if rapid.Bool().Draw(t, "priced") {
			target.InputPrice, target.OutputPrice = float64(rapid.IntRange(0, 1e5).Draw(t, "input price"))/1000, float64(rapid.IntRange(0, 1e5).Draw(t, "output price"))/1000
			rates := cost.NoRates()
			rates[cost.Input], rates[cost.Output] = cost.Price(rapid.Int64Range(0, 1e12).Draw(t, "input")), cost.Price(rapid.Int64Range(0, 1e12).Draw(t, "output"))
			target.Prices = cost.New(rates)
		}
		if n := rapid.IntRange(-1, 2).Draw(t, "measurements"); n >= 0 {
			target.Measured = new(routing.Measurements)
			values := []routing.Measurement{{Name: "waiting", Value: float64(i)}, {Name: "kv:usage", Value: float64(rapid.IntRange(-1e6, 1e6).Draw(t, "value")) / 8}}
			target.Measured.Store(values[:n], now.Add(time.Duration(rapid.IntRange(0, 1).Draw(t, "current"))))
		}
		if rapid.Bool().Draw(t, "options") {
			target.Options = fmt.Appendf(nil, `{"n":%d}`, i)
		}
		for range rapid.IntRange(0, 2).Draw(t, "attempts") {
			ticket, ok := target.StartAttempt(now, false, false)
			if !ok {
				break
			}
			switch rapid.IntRange(0, 3).Draw(t, "outcome") {
			case 0: // in flight
			case 1:
				target.EndAttempt(ticket, rapid.SampledFrom([]routing.Outcome{routing.Failed, routing.RateLimited}).Draw(t, "failure"), 1500*time.Millisecond, 0, now)
			default:
				target.RecordUsage(routing.Usage{Prompt: 100, Cached: 30, Completion: 70, CountsCached: true, Streamed: time.Second})
				target.EndAttempt(ticket, routing.Succeeded, 0, time.Duration(rapid.IntRange(1, 3).Draw(t, "seconds"))*time.Second, now)
			}
		}
		p.Targets = append(p.Targets, target)
	}
	return p
}

// drawRequest draws a function that returns the same random request each time.
func drawRequest(t *rapid.T) func() *routing.Request {
	var doc jsondoc.Doc
	body := fmt.Sprintf(`{"model":"m","user":"u%d","metadata":{"job":"x"},"messages":[{"role":"user","content":"A question."}]}`, rapid.IntRange(0, 3).Draw(t, "user"))
	if err := doc.Parse([]byte(body), jsondoc.Limits{}); err != nil {
		t.Fatal(err)
	}
	r := routing.Request{
		Key: rapid.SampledFrom([]string{"", "ci"}).Draw(t, "key"), Team: "research", KeyTags: map[string]string{"plan": "gold"}, API: "chat",
		Stream: rapid.Bool().Draw(t, "stream"), IncludeUsage: rapid.Bool().Draw(t, "usage"), Flags: clientapi.Flags(rapid.Uint32Range(0, 1<<13-1).Draw(t, "flags")), Size: len(body),
		Tools: rapid.IntRange(0, 3).Draw(t, "tools"), Images: rapid.IntRange(0, 3).Draw(t, "images"), Messages: 1,
		PromptTokens: rapid.Int64Range(0, 1e6).Draw(t, "prompt"), MaxTokens: rapid.Int64Range(0, 1e6).Draw(t, "max"), Random: rapid.Uint64().Draw(t, "random"), Explained: true,
	}
	s := &summary{plugin.Summary{
		RequestID: "req_1", Time: now, Attempt: 1, Random: r.Random, Stream: r.Stream, IncludeUsage: r.IncludeUsage, Model: "m", Flags: r.Flags, Body: len(body),
		Form: "messages", ClientForm: "messages", Betas: []string{"b"}, Tags: []string{"pii"}, MaxTokens: 64, DefaultMaxTokens: 32,
	}}
	session := rapid.SampledFrom([]string{"", "s1", "s2"}).Draw(t, "session")
	return func() *routing.Request {
		r := r
		r.Summary = s
		r.Identity = routing.Identity{Salt: routing.NewSalt("pepper"), Header: headers{"x-session-id": session, "x-tenant": "a"}, Doc: &doc, Client: "ci"}
		return &r
	}
}

// TestCompactInputEqualsDocument checks for random requests that the bundled router chooses and explains the same by
// the compact input as by the document, that a router sees the same in both of what it reads, and that
// an explanation that is not read is not written.
//
// covers: C82
func TestCompactInputEqualsDocument(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and compiles plugins")
	}
	cached := engine.Options{CacheDir: proxytest.CacheDir()}
	routers := append(load(t, cached, "router", plugintest.Build(t, "./plugins/all"), `{}`, `{"strategy":"priority"}`, `{"strategy":"least-latency"}`, `{"strategy":"least-busy"}`, `{"strategy":"cheapest"}`,
		`{"strategy":"cheapest","max_latency":"2s"}`, `{"strategy":"least-measured","measurement":"waiting"}`), load(t, cached, "echo", plugintest.Build(t, "./proxy/internal/routing/policies/testdata/echo"), `{"parts":0}`, `{"parts":1}`, `{"parts":2}`, `{"parts":7}`, `{"parts":8}`, `{"parts":15}`)...)
	rapid.Check(t, func(t *rapid.T) {
		p, request := drawPolicy(t), drawRequest(t)
		compact := *rapid.SampledFrom(routers).Draw(t, "router")
		if !compact.Compact {
			t.Fatalf("%s does not read the compact input", compact.Plugin)
		}
		document := compact
		document.Compact, document.Parts = false, abi.RouterCosts
		decide := func(router *routing.Router, r *routing.Request) string {
			p.Router = router
			var d routing.Decision
			err := p.Decide(t.Context(), r, now, &d)
			if d.Router != routing.RouterOrdered && d.Router != routing.RouterRejected {
				t.Fatalf("%s: %v, %v, %v", router.Plugin, d.Router, err, d.Err)
			}
			return fmt.Sprint(d.Order(), d.Words, err)
		}
		want := decide(&document, request())
		if got := decide(&compact, request()); got != want {
			t.Fatalf("by the compact input:\n%s\nby the document:\n%s", got, want)
		}
		r := request()
		r.Explained = false
		if got, want := decide(&compact, r), decide(&compact, request()); compact.Plugin == "router" && (!strings.HasPrefix(want, got[:strings.IndexByte(got, ']')+1]) || strings.Contains(got, ":")) {
			t.Fatalf("without explanation %s, with one %s", got, want)
		}
	})
}

// TestOldRoutersReceiveDocument checks that routers that were built for each older minor version get an input that they
// can read: before 1.6 the document.
func TestOldRoutersReceiveDocument(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles plugins")
	}
	files, err := filepath.Glob("../../../../sdk/abi/testdata/minor*/*router*.wasm.gz")
	if err != nil || len(files) < 7 {
		t.Fatalf("%d modules, %v", len(files), err)
	}
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		wasm, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		router := load(t, engine.Options{Interpreter: true}, "r", wasm, `{"long":1000}`)[0] // for one call each, compiling does not pay
		p := &routing.Policy{Router: router}
		for _, provider := range []string{"a", "b"} {
			p.Targets = append(p.Targets, routing.Target{Provider: provider, Model: "m", Stats: new(routing.Stats)})
		}
		var d routing.Decision
		r := routing.Request{Summary: &summary{plugin.Summary{Body: 1000}}, Size: 1000, Explained: true}
		if err := p.Decide(t.Context(), &r, now, &d); err != nil || d.Router != routing.RouterOrdered || fmt.Sprint(d.Order(), " ", d.Words) != "[1 0] long" || router.Compact != strings.Contains(file, "minor6") {
			t.Errorf("%s: %v %v %q, errors %v and %v, compact %t; want [1 0] long", file, d.Router, d.Order(), d.Words, err, d.Err, router.Compact)
		}
	}
}

const benchModels = `
[[keys]]
name   = "tests"
secret = "sk-tests-0123456789"
[providers.a]
plugin   = "openai"
auth     = { secret = "sk-upstream-0123456789" }
`

const benchTargets = `
pricing = { input = 1, output = 10 }
targets = [{ provider = "a", model = "m-1", weight = 3 }, { provider = "a", model = "m-2", weight = 2 }, { provider = "a", model = "m-3", weight = 1 }]
`

// BenchmarkDecide decides requests of models with three targets by the bundled router.
func BenchmarkDecide(b *testing.B) {
	text := benchModels
	models := []struct{ id, keys string }{
		{"weighted", "strategy = \"weighted\"\naffinity = \"none\""}, {"priority", "strategy = \"priority\"\naffinity = \"none\""},
		{"least-latency", "strategy = \"least-latency\"\naffinity = \"none\""}, {"cheapest", "strategy = \"cheapest\"\naffinity = \"none\""},
		{"rules", "strategy = \"weighted\"\naffinity = \"none\"\nrules = [{ name = \"x\", when = { images = true }, targets = [\"a/m-1\"] }, { name = \"y\", when = { prompt_tokens = [1] }, targets = [\"a/m-2\", \"a/m-3\"] }]"},
		{"affinity", "strategy = \"weighted\"\naffinity = \"conversation\""},
	}
	for _, m := range models {
		text += "[[models]]\nid = \"" + m.id + "\"\n" + m.keys + benchTargets
	}
	set := bind(b, text)
	var doc jsondoc.Doc
	if err := doc.Parse([]byte(`{"model":"m","messages":[{"role":"user","content":"A question of some words."}]}`), jsondoc.Limits{}); err != nil {
		b.Fatal(err)
	}
	salt := routing.NewSalt("pepper")
	request := summary{plugin.Summary{RequestID: "req_0123456789abcdef0123456789abcdef", Time: now, Attempt: 1, Stream: true, Model: "fast", Body: 1234, MaxTokens: 64000}}
	for _, m := range models {
		policy := set.Configured(m.id)
		b.Run(m.id, func(b *testing.B) {
			var d routing.Decision
			b.ReportAllocs()
			for b.Loop() {
				r := routing.Request{
					Key: "tests", API: "chat", Stream: true, PromptTokens: 100, MaxTokens: 100, Messages: 1, Random: 7, Summary: &request,
					Identity: routing.Identity{Salt: salt, Doc: &doc, Client: "tests"},
				}
				if err := policy.Decide(b.Context(), &r, now, &d); err != nil || d.Router != routing.RouterOrdered {
					b.Fatal(d.Router, err, d.Err)
				}
			}
		})
	}
}

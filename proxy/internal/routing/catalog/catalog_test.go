package catalog_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/catalog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const configText = `
[providers.demo]
plugin = "demo"
[providers.off]
plugin = "openai"
base_url = ""
list_models = { }
[providers.first]
plugin = "openai"
base_url = "https://first.example"
list_models = { every = "10m" }
options = { a = 1 }
[providers.second]
plugin = "openai"
base_url = "https://second.example"
list_models = { every = "1h", only = ["s-*", "both", "demo"] }

[[models]]
id = "demo"
display_name = "The <Demo>"
owned_by = "sluice"
created = 2026-01-01
pricing = { input = 0.0000001, output = 345678.9 }
max_tokens = 100
default_max_tokens = 50
thinking = true
targets = [{ provider = "off" }, { provider = "demo", model = "d", weight = 3 }]

[[models]]
id = "dark"
targets = [{ provider = "off" }]

[[models]]
id = "bare"
kinds = ["rerank", "embeddings"]
targets = [{ provider = "first" }]
`

func parse(t testing.TB, text string) *config.Config {
	t.Helper()
	c, err := config.Parse("gateway.toml", []byte(text), config.Options{Bundled: []string{"demo", "openai", "router"}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// fakeLister is a Lister that calls a function for each provider.
type fakeLister struct {
	mu    sync.Mutex
	calls map[string]int                                                           // number of calls, by provider
	lists map[string]func(ctx context.Context, call int) ([]catalog.Listed, error) // by provider; call starts at 1
}

func (s *fakeLister) ListModels(ctx context.Context, provider string) ([]catalog.Listed, error) {
	s.mu.Lock()
	if s.calls == nil {
		s.calls = map[string]int{}
	}
	s.calls[provider]++
	call, list := s.calls[provider], s.lists[provider]
	s.mu.Unlock()
	if list == nil {
		return nil, errors.New("no list")
	}
	return list(ctx, call)
}

func (s *fakeLister) count(provider string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[provider]
}

func list(ids ...string) []catalog.Listed {
	out := make([]catalog.Listed, len(ids))
	for i, id := range ids {
		out[i].ID = id
	}
	return out
}

func always(ids ...string) func(context.Context, int) ([]catalog.Listed, error) {
	return func(context.Context, int) ([]catalog.Listed, error) { return list(ids...), nil }
}

func ids(models []*catalog.Model) []string {
	var out []string
	for _, m := range models {
		out = append(out, m.ID)
	}
	return out
}

func wantIDs(t *testing.T, c *catalog.Catalog, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, ids(c.List(t.Context()))); diff != "" {
		t.Errorf("models (-want +got):\n%s", diff)
	}
}

func TestConfiguredModelsTakePrecedence(t *testing.T) {
	s := &fakeLister{lists: map[string]func(context.Context, int) ([]catalog.Listed, error){
		"first":  always("z", "both", "a", "a", "demo", "dark", "", "sp ace", "ctl\n", string(make([]byte, 300))),
		"second": always("both", "s-2", "s-1", "other", "demo"),
	}}
	c := catalog.New(parse(t, configText), s, catalog.Options{})
	defer c.Close()
	wantIDs(t, c, "demo", "bare", "a", "both", "z", "second/both", "s-1", "s-2")

	m, ok := c.Model(t.Context(), "both")
	if !ok || !m.Listed || m.OwnedBy != "first" {
		t.Errorf("both: %+v", m)
	}
	want := []config.Target{{Provider: "first", Model: "both", Weight: 1, Options: json.RawMessage(`{"a":1}`)}}
	if diff := cmp.Diff(want, m.Targets); diff != "" {
		t.Errorf("targets of a listed model (-want +got):\n%s", diff)
	}
	m, ok = c.Model(t.Context(), "demo")
	if !ok || m.Listed || len(m.Targets) != 1 || m.Targets[0].Provider != "demo" || m.DefaultMaxTokens != 50 {
		t.Errorf("demo: %+v", m)
	}
	for _, id := range []string{"dark", "other", "", "unknown"} {
		if m, ok := c.Model(t.Context(), id); ok {
			t.Errorf("%q: %+v", id, m)
		}
	}
	if s.count("off") != 0 || s.count("demo") != 0 || s.count("first") != 1 || s.count("second") != 1 {
		t.Errorf("calls: %v", s.calls)
	}
}

func TestModelJSON(t *testing.T) {
	yes, no := true, false
	s := &fakeLister{lists: map[string]func(context.Context, int) ([]catalog.Listed, error){
		"first": func(context.Context, int) ([]catalog.Listed, error) {
			return []catalog.Listed{
				{ID: "full", DisplayName: "Full", OwnedBy: "them", Created: 5, Pricing: &catalog.Price{Input: 1.5, Output: 2}, MaxTokens: 7, Thinking: &yes},
				{ID: "plain", Thinking: &no},
				{ID: "vectors", Kinds: []string{"embeddings", "audio"}},
				{ID: "talk", Kinds: []string{"chat"}},
				{ID: "wrong", Created: -1, MaxTokens: -1, Pricing: &catalog.Price{Input: -1, Output: 1e300}},
			}, nil
		},
	}}
	c := catalog.New(parse(t, configText), s, catalog.Options{})
	defer c.Close()
	c.List(t.Context())
	tests := map[string]string{
		"demo":    `{"id":"demo","object":"model","created":1767225600,"owned_by":"sluice","display_name":"The \u003cDemo\u003e","pricing":{"input":0.0000001,"output":345678.9},"max_tokens":100,"thinking":true}`,
		"bare":    `{"id":"bare","object":"model","created":0,"owned_by":"first","display_name":"bare","pricing":{"input":0,"output":0},"pricing_known":false,"thinking":false,"kinds":["embeddings","rerank"]}`,
		"full":    `{"id":"full","object":"model","created":5,"owned_by":"them","display_name":"Full","pricing":{"input":1.5,"output":2},"max_tokens":7,"thinking":true}`,
		"plain":   `{"id":"plain","object":"model","created":0,"owned_by":"first","display_name":"plain","pricing":{"input":0,"output":0},"pricing_known":false,"thinking":false}`,
		"talk":    `{"id":"talk","object":"model","created":0,"owned_by":"first","display_name":"talk","pricing":{"input":0,"output":0},"pricing_known":false}`,
		"vectors": `{"id":"vectors","object":"model","created":0,"owned_by":"first","display_name":"vectors","pricing":{"input":0,"output":0},"pricing_known":false,"kinds":["embeddings"]}`,
		"wrong":   `{"id":"wrong","object":"model","created":0,"owned_by":"first","display_name":"wrong","pricing":{"input":0,"output":0},"pricing_known":false}`,
	}
	for id, want := range tests {
		m, ok := c.Model(t.Context(), id)
		if !ok {
			t.Errorf("%s was not found", id)
			continue
		}
		if got := string(catalog.AppendModel([]byte("x"), m)); got != "x"+want {
			t.Errorf("%s\ngot  %s\nwant %s", id, got, want)
		}
		kinds, known := map[string]config.Kinds{
			"demo": config.KindChat, "bare": config.KindRerank | config.KindEmbeddings, "vectors": config.KindEmbeddings, "talk": config.KindChat,
		}[id]
		if !known {
			kinds = config.AllKinds
		}
		if m.Kinds != kinds {
			t.Errorf("%s: kinds %v, want %v", id, m.Kinds.Names(), kinds.Names())
		}
		if m.Thinking != (id != "bare" && id != "plain") {
			t.Errorf("%s: thinking %t", id, m.Thinking)
		}
	}
	all := c.List(t.Context())
	if got, want := string(catalog.AppendList([]byte("x"), all[:2])), `x{"object":"list","data":[`+tests["demo"]+`,`+tests["bare"]+`]}`; got != want {
		t.Errorf("list\ngot  %s\nwant %s", got, want)
	}
	if got := string(catalog.AppendList(nil, nil)); got != `{"object":"list","data":[]}` {
		t.Errorf("empty list: %s", got)
	}
}

func TestListedParsesPluginJSON(t *testing.T) {
	var got catalog.Listed
	const in = `{"id":"m","display_name":"M","owned_by":"o","created":1,"max_tokens":2,"thinking":true,"pricing":{"input":1.5,"output":2},"kinds":["rerank"]}`
	if err := json.Unmarshal([]byte(in), &got); err != nil {
		t.Fatal(err)
	}
	yes := true
	want := catalog.Listed{ID: "m", DisplayName: "M", OwnedBy: "o", Created: 1, MaxTokens: 2, Thinking: &yes, Kinds: []string{"rerank"}, Pricing: &catalog.Price{Input: 1.5, Output: 2}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

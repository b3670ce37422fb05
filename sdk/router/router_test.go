package router_test

import (
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/native"
	"github.com/sluice-gateway/sluice/sdk/router"
)

// host is a host that only accepts log messages.
type host struct{ abi.Host }

func (host) Log(abi.LogLevel, []byte) {}

var seen router.Choice

func init() {
	router.Register(func(c *router.Choice) error {
		seen = *c
		return nil
	}, nil)
}

// TestInput checks that a router sees every member of its input, and nothing of the preceding request.
func TestInput(t *testing.T) {
	p := native.New("", host{})
	if status := p.Configure(0, []byte(`{"a":1}`)); status != 0 {
		t.Fatalf("configure: %d", status)
	}
	for _, tt := range []struct {
		name, input string
		want        router.Choice
	}{
		{"everything", `{"summary":{"model":"m","random":"0000000000000001","flags":["tools"],"tags":["pii"],"body":9,"key":"ci","team":"research","key_tags":{"plan":"gold"},` +
			`"affinity":"5d41402abc4b2a76","conversation":"5d41402abc4b2a77","user":"0cc175b9c0f1b6a8","prompt_tokens":1830,"max_tokens_asked":4096,` +
			`"messages":7,"images":2,"tools":12,"metadata":{"job":"x"},"headers":{"x-tenant":"a"},"new":1},` +
			`"targets":[{"index":0,"provider":"p","model":"x","weight":9,"priority":-1,"fallback":true,"healthy":true,"inflight":12,"latency_ms":420,"error_rate":0.25,` +
			`"input_price":3,"output_price":15,"limited_for_ms":1500,"tokens_per_second":71.5,"cached_share":0.75,"caches_prompts":true,"expected_cost":0.021,"measurements":{"q":3,"x":null},"options":{"a":1},"new":1}]}`,
			router.Choice{
				Summary:  sdk.Summary{Model: []byte("m"), Random: 1, Flags: sdk.FlagTools, Tags: json.Value(`["pii"]`), BodySize: 9, Form: abi.FormChat, ClientForm: abi.FormChat},
				Settings: json.Value(`{"a":1}`), Key: []byte("ci"), Team: []byte("research"), KeyTags: json.Value(`{"plan":"gold"}`),
				Affinity: 0x5d41402abc4b2a76, HasAffinity: true, Conversation: 0x5d41402abc4b2a77, User: 0x0cc175b9c0f1b6a8,
				PromptTokens: 1830, MaxTokensAsked: 4096, Messages: 7, Images: 2, Tools: 12, Metadata: json.Value(`{"job":"x"}`), Headers: json.Value(`{"x-tenant":"a"}`),
				Targets: []router.Target{{
					Provider: []byte("p"), Model: []byte("x"), Weight: 9, Priority: -1, Fallback: true, Healthy: true, InFlight: 12, Latency: 420, ErrorRate: 0.25,
					InputPrice: 3, OutputPrice: 15, Options: json.Value(`{"a":1}`), LimitedFor: 1500, TokensPerSecond: 71.5, CachedShare: 0.75, CachesPrompts: true, ExpectedCost: 0.021, Priced: true,
					Measurements: []router.Measurement{{Name: []byte("q"), Value: 3}},
				}},
			}},
		{"a host that implements version 1.4", `{"summary":{"model":"m"},"targets":[]}`, router.Choice{
			Summary: sdk.Summary{Model: []byte("m"), Form: abi.FormChat, ClientForm: abi.FormChat}, Settings: json.Value(`{"a":1}`), Targets: []router.Target{},
		}},
	} {
		if status := p.Choose(0, []byte(tt.input)); status != 0 {
			t.Errorf("%s: status %d", tt.name, status)
		}
		if diff := cmp.Diff(tt.want, seen); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
	if status := p.Choose(0, []byte(`{"summary":{"affinity":}}`)); status == 0 {
		t.Error("invalid JSON is accepted")
	}
}

// compact returns a compact input of one target, with larger head and record than this version knows.
func compact() []byte {
	const name, document = "providermodel{}", `{"summary":{"model":"m"}}`
	p := make([]byte, abi.RouterHeadSize+8+abi.RouterRecordSize+8)
	for at, n := range map[int]uint32{0: abi.RouterHeadSize + 8, 4: abi.RouterRecordSize + 8, 8: 1, 12: uint32(abi.RouterAffinity), 20: uint32(len(document))} {
		binary.LittleEndian.PutUint32(p[at:], n)
	}
	record := p[abi.RouterHeadSize+8:]
	for at, n := range map[int]uint32{0: uint32(abi.TargetHealthy), 4: 8, 8: 5, 12: 2, 16: 7} {
		binary.LittleEndian.PutUint32(record[at:], n)
	}
	return append(append(p, name...), document...)
}

// TestCompactInput checks that a longer head and longer records are read, and that an input with a wrong length is
// rejected. TestCompactInputEqualsDocument of proxy/internal/routing/policies compares all fields with the document's.
func TestCompactInput(t *testing.T) {
	p := native.New("", host{})
	if p.Configure(0, []byte(`{}`)) != 0 || abi.RouterParts(p.Reads(0)) != router.Costs|router.Hashes|router.Document|router.Measured || p.Reads(1) >= 0 {
		t.Fatalf("configured, but the parts are %d, and %d of a binding that is not configured", p.Reads(0), p.Reads(1))
	}
	input := compact()
	if status := p.Choose(0, input); status != 0 {
		t.Fatalf("status %d", status)
	}
	want := router.Choice{Summary: sdk.Summary{Model: []byte("m")}, Settings: json.Value(`{}`), Unexplained: true, Targets: []router.Target{{
		Provider: []byte("provider"), Model: []byte("model"), Options: json.Value(`{}`), Healthy: true, Weight: 7,
	}}}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for n := 4; n < len(input); n++ {
		if p.Choose(0, input[:n]) == 0 {
			t.Errorf("the first %d bytes of %d are accepted", n, len(input))
		}
	}
	if p.Choose(0, append(input, ' ')) == 0 {
		t.Error("another byte at the end is accepted")
	}
}

// FuzzInput checks that no input makes the SDK panic, and that no target's name is outside of the input.
func FuzzInput(f *testing.F) {
	f.Add(compact())
	f.Add([]byte(`{"summary":{"model":"m"},"targets":[{"provider":"p"}]}`))
	p := native.New("", host{})
	p.Configure(0, []byte(`{}`))
	f.Fuzz(func(t *testing.T, input []byte) {
		if p.Choose(0, input) != 0 {
			return
		}
		size := 0
		for _, target := range seen.Targets {
			size += len(target.Provider) + len(target.Model) + len(target.Options)
		}
		if size > len(input) {
			t.Errorf("%d bytes of names in an input of %d", size, len(input))
		}
	})
}

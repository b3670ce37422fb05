package router_test

import (
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
			`"input_price":3,"output_price":15,"limited_for_ms":1500,"tokens_per_second":71.5,"cached_share":0.75,"caches_prompts":true,"options":{"a":1},"new":1}]}`,
			router.Choice{
				Summary:  sdk.Summary{Model: []byte("m"), Random: 1, Flags: sdk.FlagTools, Tags: json.Value(`["pii"]`), BodySize: 9, Form: abi.FormChat, ClientForm: abi.FormChat},
				Settings: json.Value(`{"a":1}`), Key: []byte("ci"), Team: []byte("research"), KeyTags: json.Value(`{"plan":"gold"}`),
				Affinity: 0x5d41402abc4b2a76, HasAffinity: true, Conversation: 0x5d41402abc4b2a77, User: 0x0cc175b9c0f1b6a8,
				PromptTokens: 1830, MaxTokensAsked: 4096, Messages: 7, Images: 2, Tools: 12, Metadata: json.Value(`{"job":"x"}`), Headers: json.Value(`{"x-tenant":"a"}`),
				Targets: []router.Target{{
					Provider: []byte("p"), Model: []byte("x"), Weight: 9, Priority: -1, Fallback: true, Healthy: true, InFlight: 12, Latency: 420, ErrorRate: 0.25,
					InputPrice: 3, OutputPrice: 15, Options: json.Value(`{"a":1}`), LimitedFor: 1500, TokensPerSecond: 71.5, CachedShare: 0.75, CachesPrompts: true,
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

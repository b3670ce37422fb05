package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/plugins"
	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/plugintest"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// blocklist returns the configuration of a filter for two phrases.
func blocklist(action, more string) string {
	return fmt.Sprintf("[[filters]]\nplugin = \"blocklist\"\noptions = { phrases = [\"top secret\", \"quuxer\"], mask = \"[x]\", action = %q }\n%s\n", action, more)
}

// TestFilterMasks checks that neither clients nor providers get a phrase, wherever texts are cut, with and without
// translation.
func TestFilterMasks(t *testing.T) {
	forEachIngressAndWire(t, func(t *testing.T, in *ingress, w *wire) {
		pieces := []string{"a to", "p", " sec", "ret an", "d quux", "ers t", "op secre"}
		whole := strings.Join(pieces, "")
		closing := func(contentType, body string) upstreamtest.Script {
			return upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, contentType, body, "Connection: close")}
		}
		provider := upstreamtest.New(t,
			closing("application/json", w.answer(whole)), closing("text/event-stream", w.stream(pieces...)),
			closing("text/event-stream", w.stream(pieces...)), closing("application/json", w.answer(whole)),
		)
		g := proxytest.Start(t, w.gatewayConfig(provider.URL())+blocklist("mask", ""))
		for i, stream := range []bool{false, true, false, true} { // for the last two, the provider's response has the other form
			r := g.Do(t, "POST", in.pathTo("m", stream), in.requestBody("m", "say top  secret, no: Top Secret \" now", stream))
			in.wantText(t, g, r, stream, "a [x] and quuxers top secre")
			if strings.Contains(r.Body, "top secret") {
				t.Errorf("the response contains the phrase:\n%s", r.Body)
			}
			sent := provider.Requests()[i].Body
			if !strings.Contains(string(sent), `say top  secret, no: [x] \" now`) {
				t.Errorf("the provider was sent %s", sent)
			}
		}
	})
}

// TestFilterRefuses checks that refused texts are an error in the client's API, before and after the first byte, and
// that no part of the phrase is sent.
func TestFilterRefuses(t *testing.T) {
	forEachIngressAndWire(t, func(t *testing.T, in *ingress, w *wire) {
		closing := func(contentType, body string) upstreamtest.Script {
			return upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, contentType, body, "Connection: close")}
		}
		provider := upstreamtest.New(t,
			closing("application/json", w.answer("the top secret")), closing("text/event-stream", w.stream("the to", "p secret")),
		)
		g := proxytest.Start(t, w.gatewayConfig(provider.URL())+blocklist("refuse", ""))
		for _, stream := range []bool{false, true} {
			r := in.ask(t, g, "m", stream)
			if r.Status < 400 || strings.Contains(r.Body, "secret") || strings.Contains(r.Body, "the to") {
				t.Errorf("got status %d: %s", r.Status, r.Body)
			}
		}
		r := g.Do(t, "POST", in.pathTo("m", true), in.requestBody("m", "the top secret", true))
		if r.Status < 400 || strings.Contains(r.Body, "secret") || len(provider.Requests()) != 2 {
			t.Errorf("status %d after %d requests: %s", r.Status, len(provider.Requests()), r.Body)
		}
	})
}

// TestFailedStreamDropsHeldText checks that text held back by a filter is not sent when the stream is truncated.
func TestFailedStreamDropsHeldText(t *testing.T) {
	forEachIngressAndWire(t, func(t *testing.T, in *ingress, w *wire) {
		stream := w.stream("the first. ", "and top secre", "more")
		at := strings.Index(stream, "secre") // truncate the stream after the event with this text
		end := at + strings.Index(stream[at:], "\n\n") + 2
		g := proxytest.Start(t, w.gatewayConfig(upstreamtest.New(t, upstreamtest.Script{
			upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Write(stream[:end]), upstreamtest.Reset(),
		}).URL())+blocklist("mask", ""))
		r := in.ask(t, g, "m", true)
		if strings.Contains(r.Body, "secre") || strings.Contains(r.Body, in.done) {
			t.Errorf("status %d, %v: %s", r.Status, r.Err, r.Body)
		}
	})
}

// TestFilterSeesTheWholeRequest checks that a phrase reaches no provider in places other than messages, and that it is
// refused where it cannot be replaced.
func TestFilterSeesTheWholeRequest(t *testing.T) {
	provider := upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json",
		`{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"a"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`, "Connection: close")})
	g := proxytest.Start(t, configuration("", "")+fmt.Sprintf("[providers.p]\nplugin = \"anthropic\"\nbase_url = %q\nauth = { secret = \"sk-upstream-canary\" }\n", provider.URL())+
		modelWithTargets("m", "p/m")+blocklist("mask", ""))
	const request = `{"model":"m","max_tokens":10,"messages":[{"role":"user","content":"a"},
		{"role":"assistant","content":[{"type":"thinking","thinking":"top secret","signature":"c2ln"},{"type":"text","text":"b"}]},
		{"role":"user","content":[{"type":"search_result","source":"top secret","title":"top secret","content":[{"type":"text","text":"c"}]}]}],
		"tools":[{"name":"f","input_schema":{"type":"object","title":"top secret","properties":{"a":{"type":"string","description":"top secret"%s}}}}],
		"metadata":{"user_id":"top secret"},"vendor_option":[{"note":"top secret"}]}`
	r := g.Do(t, "POST", "/v1/messages", fmt.Sprintf(request, ""))
	if r.Status != 200 {
		t.Fatalf("status %d: %s", r.Status, r.Body)
	}
	if sent := string(provider.Requests()[0].Body); strings.Contains(sent, "secret") || strings.Count(sent, "[x]") != 6 || strings.Contains(sent, "c2ln") {
		t.Errorf("the provider was sent %s", sent)
	}
	r = g.Do(t, "POST", "/v1/messages", fmt.Sprintf(request, `,"enum":["top secret"]`))
	if line := g.Log.Request(t, r.RequestID()); r.Status != 400 || !strings.Contains(r.Body, `"type":"invalid_request_error"`) || strings.Contains(r.Body, "secret") ||
		!strings.Contains(r.Body, "tools[0].input_schema.properties.a.enum[0]") || line["code"] != "filter_refused" || len(provider.Requests()) != 1 {
		t.Errorf("status %d: %s\n%v", r.Status, r.Body, line)
	}
}

func TestFilterTagsRequest(t *testing.T) {
	g := proxytest.Start(t, quietServer+demoProvider+blocklist("tag", `tags = ["blocklist"]`))
	for text, tags := range map[string]string{"a quuxer": "blocklist", "nothing": ""} {
		r := g.Chat(t, fmt.Sprintf(`{"model":"demo","messages":[{"role":"user","content":%q}]}`, text))
		if line := g.Log.Request(t, r.RequestID()); r.Status != 200 || line["tags"] != tags || !strings.Contains(r.Body, "quuxer") && tags != "" {
			t.Errorf("status %d, %v: %s", r.Status, line, r.Body)
		}
	}
}

// TestFilterKindMustMatchUse checks that only filters can be used as filters, and filters as nothing else.
func TestFilterKindMustMatchUse(t *testing.T) {
	if testing.Short() {
		t.Skip("loads the bundled plugins for each case")
	}
	pair := plugintest.Build(t, "./proxy/plugintest/testdata/pair")
	for _, c := range []struct{ name, text, reason string }{
		{"a router as a filter", guestFile(t, "middle", "key", pair) + "[[filters]]\nplugin = \"middle\"\n", "filters[0]: plugin middle is a router, not a filter"},
		{"a filter as a provider", pairProvider("secrets"), "providers.secrets: plugin secrets is a filter, not a provider"},
		{"a filter as a router", demoProvider + "[router]\nplugin = \"secrets\"\n", "router: plugin secrets is a filter, not a router"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg, err := config.Parse("gateway.toml", []byte(quietServer+c.text), config.Options{Bundled: plugins.Names()})
			if err != nil {
				t.Fatal(err)
			}
			s, err := proxy.New(t.Context(), proxy.Options{Config: cfg, Bundled: proxytest.Bundled(t), CacheDir: proxytest.CacheDir()})
			if err == nil {
				s.Close()
				t.Fatal("the gateway accepted the configuration")
			}
			if !strings.Contains(err.Error(), c.reason) {
				t.Errorf("got error %q, want one containing %q", err, c.reason)
			}
		})
	}
}

// TestFilterLegacyCompletions checks filters in an API whose responses are otherwise passed on.
func TestFilterLegacyCompletions(t *testing.T) {
	chunk := func(text, reason string) string {
		return fmt.Sprintf("data: {\"id\":\"cmpl-1\",\"object\":\"text_completion\",\"model\":\"m\",\"choices\":[{\"index\":0,\"text\":%q,\"finish_reason\":%s}]}\n\n", text, reason)
	}
	provider := upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "text/event-stream",
		chunk("a top sec", "null")+chunk("ret and top", `"stop"`)+"data: [DONE]\n\n", "Connection: close")})
	g := proxytest.Start(t, quietServer+fmt.Sprintf("[providers.p]\nplugin = \"openai\"\nbase_url = %q\nauth = { secret = \"sk-upstream-one-canary\" }\noptions = { forms = [\"completions\"] }\n", provider.URL())+
		"[[models]]\nid = \"m\"\nkinds = [\"completions\"]\ntargets = [{ provider = \"p\", model = \"m\" }]\n"+blocklist("mask", ""))
	r := g.Do(t, "POST", "/v1/completions", `{"model":"m","prompt":"say top secret","stream":true}`)
	if sent := string(provider.Requests()[0].Body); r.Status != 200 || strings.Contains(r.Body, "secret") || !strings.Contains(r.Body, "[x] and top") || !strings.HasSuffix(r.Body, "data: [DONE]\n\n") || !strings.Contains(sent, "say [x]") {
		t.Errorf("status %d: %s\nsent %s", r.Status, r.Body, sent)
	}
}

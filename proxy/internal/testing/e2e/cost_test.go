package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// TestCostOfRecordedResponses serves recorded responses, streaming and not, and compares their cost with one computed
// by hand from the token counts in the recording.
func TestCostOfRecordedResponses(t *testing.T) {
	const (
		gpt    = `input = 2.5, cached_input = 1.25, output = 10, audio_input = 40, audio_output = 80`
		grok   = `input = 0.2, cached_input = 0.02, output = 1.5`
		haiku  = `input = 1, cached_input = 0.1, cache_write = 1.25, cache_write_1h = 2, output = 5`
		gemini = `input = 1.25, cached_input = 0.31, output = 10, tiers = [{ above = 200_000, input = 2.5, output = 15 }]`
	)
	// The comments compute the costs in millionths of a dollar: tokens times dollars per million tokens.
	cases := []struct {
		plugin, recording, pricing string
		want                       string // US dollars
	}{
		{"openai", "openai/plain", gpt, "0.00007"},                                                                 // 20×2.5 + 2×10 = 70
		{"openai", "openai/stream-n2", gpt, "0.001105"},                                                            // 26×2.5 + 104×10, both choices = 1105
		{"openai", "openai/stream-reasoning-o4-mini-tool", gpt, "0.00105"},                                         // 64×2.5 + 89×10, including 64 of reasoning = 1050
		{"openai", "openai/stream-reasoning-o4-mini-tool", gpt + `, reasoning = 20`, "0.00169"},                    // 64×2.5 + 25×10 + 64×20 = 1690
		{"openai", "openai/audio-out", gpt, "0.001075"},                                                            // 22×2.5 + 6×10 + 12 of audio×80 = 1075
		{"openai", "azure/stream-tool", gpt, "0.0019025"},                                                          // 145×2.5 + 154×10 = 1902.5
		{"openai", "deepseek/stream-reasoning", `input = 0.28, cached_input = 0.028, output = 0.42`, "0.00009702"}, // 18×0.28 + 219×0.42 = 97.02
		{"openai", "mistral/stream-tool", `input = 0.4, cached_input = 0.04, output = 2`, "0.00007352"},            // 31×0.4 + 128×0.04 + 28×2 = 73.52
		{"openai", "groq/stream-plain", `input = 0.05, output = 0.08`, "0.00000132"},                               // usage is sent twice: 20×0.05 + 4×0.08 = 1.32
		{"openai", "other/zai-stream-tool", `input = 0.6, cached_input = 0.11, output = 2.2`, "0.00022412"},        // 1×0.6 + 172×0.11 + 93×2.2 = 224.12
		{"openai", "other/perplexity-stream", `input = 1, output = 1, per_request = 0.005`, "0.005013"},            // cumulative usage: 5000 + 8 + 5; the provider reports 0.00501, rounded
		{"openai", "gemini/openai-compat-tool-no-id", gemini, "0.00078375"},                                        // 35×1.25 + (109-35)×10 = 783.75: only the total includes the thoughts

		// These providers report the cost, xAI in 10^-10 dollars. xAI's completion tokens do not include reasoning.
		{"openai", "xai/stream-tool", grok, "0.00016338"},                                                        // 6×0.2 + 384×0.02 + (26+77)×1.5: cost_in_usd_ticks 1633800
		{"openai", "xai/stream-parallel-tools", `input = 0.2, cached_input = 0.05, output = 0.5`, "0.00016545"},  // 279×0.2 + 153×0.05 + (68+136)×0.5: 1654500
		{"openai", "xai/reasoning-grok3-mini", `input = 0.3, cached_input = 0.075, output = 0.5`, "0.000273325"}, // 281×0.3 + 7×0.075 + (27+350)×0.5: 2733250
		{"openai", "openrouter/stream-claude-parallel-tools", haiku, "0.001285"},                                 // 685×1 + 120×5: cost 0.001285
		{"openai", "openrouter/stream-claude-thinking", haiku, "0.001322"},                                       // 607×1 + 143×5: cost 0.001322

		// The input tokens do not include cached tokens.
		{"anthropic", "recorded/cache-t2", haiku, "0.0008016"},                                          // 3×1 + 1111×0.1 + 418×1.25 + 33×5 = 801.6
		{"anthropic", "recorded/stream-thinking-tool-t1", haiku, "0.001019"},                            // 424×1 + 119×5 = 1019
		{"bedrock", "recorded/converse-cache", haiku, "0.0007651"},                                      // 10×1 + 7351×0.1 + 4×5 = 765.1
		{"bedrock", "recorded/converse-stream-tool-nova", `input = 0.035, output = 0.14`, "0.00004039"}, // 986×0.035 + 42×0.14 = 40.39

		// The provider bills fewer tokens than the model processed: 8 and 8, not 503 and 11.
		{"cohere", "recorded/plain", `input = 2.5, output = 10`, "0.0001"},                                          // 8×2.5 + 8×10 = 100
		{"cohere", "recorded/stream-citations-thinking", `input = 2.5, cached_input = 1, output = 10`, "0.0007925"}, // 65×2.5 + 63×10 = 792.5

		// The candidates' count does not include thoughts, the prompt's count includes cached tokens, and counts are
		// cumulative.
		{"gemini", "G30-recorded-grounding", gemini, "0.01382602"},                               // 351×1.25 + 217×0.31 + (305+1027)×10 = 13826.02
		{"gemini", "G16-G18-G29-recorded-gemini3-stream-parallel-tools-t2", gemini, "0.0011975"}, // 646×1.25 + (19+20)×10 = 1197.5
	}
	recorded := map[string]recording{}
	for _, r := range compatibleRecordings(t) {
		recorded["openai "+r.name] = r
	}
	for name := range translatingPlugins {
		vectors, err := plugintest.Load(filepath.Join("..", "..", "..", "..", "plugins", name, "testdata", "vectors"))
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range vectors {
			recorded[name+" "+v.Name] = recording{status: v.Status, contentType: v.ContentType, body: string(v.Response)}
		}
	}
	var models strings.Builder
	var scripts []upstreamtest.Script
	for i, c := range cases {
		rec, ok := recorded[c.plugin+" "+c.recording]
		if !ok {
			t.Fatalf("no recording %s of %s", c.recording, c.plugin)
		}
		fmt.Fprintf(&models, "[[models]]\nid = \"m-%d\"\npricing = { %s }\nmax_tokens = 8000\ndefault_max_tokens = 100\ntargets = [{ provider = %q, model = \"m\" }]\n", i, c.pricing, c.plugin)
		for range 2 {
			scripts = append(scripts, upstreamtest.Script{upstreamtest.ReadRequest(), rec.answer(false, nil, func(int) []int { return nil })})
		}
	}
	g := proxytest.Start(t, pricedConfiguration(upstreamtest.New(t, scripts...).URL(), models.String()))
	for i, c := range cases {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%s/streamed %v", c.plugin, c.recording, stream), func(t *testing.T) {
				checkCost(t, g, fmt.Sprintf("m-%d", i), stream, c.want)
			})
		}
	}
}

// pricedConfiguration returns a configuration with a provider for each plugin, all of them with the same URL.
func pricedConfiguration(url, models string) string {
	text := proxytest.Keys + models
	for _, plugin := range []string{"openai", "anthropic", "bedrock", "cohere", "gemini"} {
		text += fmt.Sprintf("[providers.%s]\nplugin = %[1]q\nbase_url = %q\nauth = { secret = \"sk-upstream-canary\" }\nbreaker = { enabled = false }\n", plugin, url)
	}
	return text
}

// checkCost requests a chat completion and checks its cost in the header, the usage and the log.
func checkCost(t *testing.T, g *proxytest.Gateway, model string, stream bool, want string) {
	t.Helper()
	body := fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"How is the weather just now?"}]`, model)
	if stream {
		body += `,"stream":true,"stream_options":{"include_usage":true}`
	}
	r := g.Chat(t, body+"}")
	if r.Status != http.StatusOK || r.Err != nil {
		t.Fatalf("%d %v: %s", r.Status, r.Err, r.Body)
	}
	header := r.Header.Get("X-Gateway-Cost")
	if !stream && header != want || stream && header != "" {
		t.Errorf("x-gateway-cost is %q, want %s, or none in a stream", header, want)
	}
	last := r.Body
	if stream {
		events := strings.Split(strings.TrimSpace(r.Body), "\n\n")
		last = strings.TrimPrefix(events[len(events)-2], "data: ")
	}
	var document struct {
		Usage struct {
			Cost json.Number `json:"cost"`
		} `json:"usage"`
	}
	if err := json.Unmarshal([]byte(last), &document); err != nil || document.Usage.Cost.String() != want {
		t.Errorf("usage has the cost %s (%v), want %s: %s", document.Usage.Cost, err, want, last)
	}
	if n := strings.Count(last, `"cost":`); n != 1 {
		t.Errorf("got %d costs, want 1: %s", n, last)
	}
	if line := g.Log.Request(t, r.RequestID()); line["cost"] != want {
		t.Errorf("the log has the cost %v, want %s", line["cost"], want)
	}
}

// TestCostOfSpecialUsage checks costs that other gateways have got wrong: the price of long prompts (litellm#30135),
// the longer of two cache lifetimes (litellm#36762), and responses without usage (new-api#5235).
func TestCostOfSpecialUsage(t *testing.T) {
	const sonnet = `input = 3, cached_input = 0.3, cache_write = 3.75, cache_write_1h = 6, output = 15, tiers = [{ above = 200_000, input = 6, cached_input = 0.6, cache_write = 7.5, cache_write_1h = 12, output = 22.5 }]`
	message := func(usage string) string {
		return `{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"Hi"}],"stop_reason":"end_turn","usage":` + usage + `}`
	}
	cases := []struct {
		name, plugin, pricing, response string
		want                            string // US dollars
	}{
		{"an hour in the cache", "anthropic", sonnet,
			message(`{"input_tokens":10,"cache_creation_input_tokens":3000,"cache_read_input_tokens":500,"cache_creation":{"ephemeral_5m_input_tokens":1000,"ephemeral_1h_input_tokens":2000},"output_tokens":4}`),
			"0.01599"}, // 10×3 + 1000×3.75 + 2000×6 + 500×0.3 + 4×15 = 15990
		{"an hour in Bedrock's cache", "bedrock", sonnet,
			`{"output":{"message":{"role":"assistant","content":[{"text":"Hi"}]}},"stopReason":"end_turn","usage":{"inputTokens":10,"outputTokens":4,"totalTokens":3514,"cacheReadInputTokens":500,"cacheWriteInputTokens":3000,"cacheDetails":[{"inputTokens":2000,"ttl":"1h"},{"inputTokens":1000,"ttl":"5m"}]}}`,
			"0.01599"},
		{"a long prompt, most of it cached", "anthropic", sonnet,
			message(`{"input_tokens":1,"cache_creation_input_tokens":0,"cache_read_input_tokens":200000,"output_tokens":100}`),
			"0.122256"}, // 1×6 + 200,000×0.6 + 100×22.5 = 122256
		{"a prompt as long as the tier's limit", "anthropic", sonnet,
			message(`{"input_tokens":0,"cache_creation_input_tokens":0,"cache_read_input_tokens":200000,"output_tokens":100}`),
			"0.0615"}, // 200,000×0.3 + 100×15 = 61500
		{"more cached tokens than prompt tokens", "openai", sonnet,
			`{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":4,"total_tokens":14,"prompt_tokens_details":{"cached_tokens":500}}}`,
			"0.00024"}, // 10×3 + 500×0.3 + 4×15 = 240
		{"no usage", "openai", `per_request = 0.5, output = 1_000`,
			`{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"twelve bytes"},"finish_reason":"stop"}]}`,
			"0.503"}, // 500,000 per request + 3 tokens of 4 bytes×1000 = 503,000
	}
	var models strings.Builder
	var scripts []upstreamtest.Script
	for i, c := range cases {
		rec := recording{status: 200, contentType: "application/json", body: c.response}
		fmt.Fprintf(&models, "[[models]]\nid = \"m-%d\"\nmax_tokens = 8000\ndefault_max_tokens = 100\ntargets = [{ provider = %q, model = \"m\" }]\npricing = { %s }\n", i, c.plugin, c.pricing)
		for range 2 {
			scripts = append(scripts, upstreamtest.Script{upstreamtest.ReadRequest(), rec.answer(false, nil, func(int) []int { return nil })})
		}
	}
	g := proxytest.Start(t, pricedConfiguration(upstreamtest.New(t, scripts...).URL(), models.String()))
	for i, c := range cases {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/streamed %v", c.name, stream), func(t *testing.T) { checkCost(t, g, fmt.Sprintf("m-%d", i), stream, c.want) })
		}
	}
}

// TestCostOfTruncatedStream truncates a stream whose usage so far has one completion token, so that the cost is
// computed from an estimate, and from the tokens that the provider may have generated since.
func TestCostOfTruncatedStream(t *testing.T) {
	rec := recording{status: 200, contentType: "text/event-stream", body: `event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"usage":{"input_tokens":100,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"forty bytes of text are about ten tokens"}}

`}
	url := upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), rec.answer(false, nil, func(int) []int { return nil })}).URL()
	g := proxytest.Start(t, pricedConfiguration(url, "[[models]]\nid = \"m\"\ndefault_max_tokens = 100\ntargets = [{ provider = \"anthropic\", model = \"m\", pricing = { input = 3, output = 15 } }]\npricing = { input = 1_000 }\n"))
	r := g.Chat(t, `{"model":"m","messages":[{"role":"user","content":"x"}],"stream":true}`)
	line := g.Log.Request(t, r.RequestID())
	// With the target's prices: 100×3 + 10×15 = 450, and 256×15 = 3840.
	if line["cost"] != "0.00429" || line["uncertain_cost"] != "0.00384" || line["complete"] != "false" || line["usage_estimated"] != "true" || line["completion_tokens"] != "10" {
		t.Errorf("got log line %v", line)
	}
}

// TestNoCostWithoutPrices checks that a model without pricing has no cost in the header, the usage and the log.
func TestNoCostWithoutPrices(t *testing.T) {
	up := upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json",
		`{"id":"x","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":1,"total_tokens":6}}`)})
	g := proxytest.Start(t, proxytest.Keys+fmt.Sprintf("[providers.own]\npreset = \"vllm\"\nbase_url = %q\n[[models]]\nid = \"m\"\ntargets = [{ provider = \"own\" }]\n", up.URL()))
	r := g.Chat(t, `{"model":"m","messages":[{"role":"user","content":"x"}]}`)
	if r.Status != http.StatusOK || r.Header.Get("X-Gateway-Cost") != "" || strings.Contains(r.Body, `"cost"`) {
		t.Errorf("%d %v %s", r.Status, r.Header, r.Body)
	}
	if line := g.Log.Request(t, r.RequestID()); line["cost"] != "" {
		t.Errorf("got log line %v, want no cost", line)
	}
}

package e2e_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// serviceTiers are prices like those of OpenAI, Anthropic and Google: half for flex, separate prices for priority, six
// times as much for fast mode, and nothing for provisioned throughput, which is paid in advance.
const serviceTiers = `pricing = { input = 2, cached_input = 0.5, output = 8, service_tiers = [
  { name = "flex", factor = 0.5 }, { name = "priority", input = 3.5, cached_input = 0.875, output = 14 }, { name = "fast", factor = 6 },
  { name = "provisioned_throughput", factor = 0 },
] }`

// TestCostOfServiceTiers checks that the cost follows the tier that the provider reports, which is not always the
// requested one (litellm#34801, #31837).
func TestCostOfServiceTiers(t *testing.T) {
	const (
		chat      = `{"model":"%s","service_tier":"priority","messages":[{"role":"user","content":"Hi"}]}`
		streamed  = `{"model":"%s","stream":true,"messages":[{"role":"user","content":"Hi"}]}`
		responses = `{"model":"%s","service_tier":"priority","input":"Hi"}`
		message   = `{"model":"%s","max_tokens":100,"messages":[{"role":"user","content":"Hi"}]}`
		contents  = `{"contents":[{"role":"user","parts":[{"text":"Hi"}]}]}`

		chatReply      = `{"id":"c","object":"chat.completion","created":1,"model":"m","service_tier":%q,"choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1000,"completion_tokens":100,"total_tokens":1100,"prompt_tokens_details":{"cached_tokens":400}}}`
		chunksReply    = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","service_tier":%[1]q,"choices":[{"index":0,"delta":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}]}` + "\n\n" + `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","service_tier":%[1]q,"choices":[],"usage":{"prompt_tokens":1000,"completion_tokens":100,"total_tokens":1100,"prompt_tokens_details":{"cached_tokens":400}}}` + "\n\ndata: [DONE]\n\n"
		responsesReply = `{"id":"r","object":"response","created_at":1,"model":"m","status":"completed","service_tier":%q,"output":[{"id":"msg","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":"Hi","annotations":[]}]}],"usage":{"input_tokens":1000,"input_tokens_details":{"cached_tokens":400},"output_tokens":100,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":1100}}`
		messagesReply  = `{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"Hi"}],"stop_reason":"end_turn","usage":{"input_tokens":600,"cache_read_input_tokens":400,"output_tokens":100,%s}}`
		geminiReply    = `{"candidates":[{"content":{"parts":[{"text":"Hi"}],"role":"model"},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":1000,"candidatesTokenCount":100,"totalTokenCount":1100,"cachedContentTokenCount":400,%s},"modelVersion":"m","responseId":"g"}`
		converseReply  = `{"output":{"message":{"role":"assistant","content":[{"text":"Hi"}]}},"stopReason":"end_turn","serviceTier":{"type":%q},"usage":{"inputTokens":600,"cacheReadInputTokens":400,"outputTokens":100,"totalTokens":1100}}`

		// Cost in dollars of 600 input, 400 cached and 100 output tokens. The sums are in 10^-6 dollars.
		standard = "0.0022"  // 600×2 + 400×0.5 + 100×8 = 2200
		flex     = "0.0011"  // half of that
		priority = "0.00385" // 600×3.5 + 400×0.875 + 100×14 = 3850
		fast     = "0.0132"  // six times as much
	)
	events := func(names ...string) string {
		var all strings.Builder
		for _, e := range names {
			name, data, _ := strings.Cut(e, " ")
			fmt.Fprintf(&all, "event: %s\ndata: %s\n\n", name, data)
		}
		return all.String()
	}
	cases := []struct {
		name, plugin, path, request string
		response                    string
		stream                      bool
		want                        string
	}{
		{"flex", "openai", "/v1/chat/completions", chat, fmt.Sprintf(chatReply, "flex"), false, flex},
		{"priority", "openai", "/v1/chat/completions", chat, fmt.Sprintf(chatReply, "priority"), false, priority},
		{"another tier than requested", "openai", "/v1/chat/completions", chat, fmt.Sprintf(chatReply, "default"), false, standard},
		{"a tier without prices", "openai", "/v1/chat/completions", chat, fmt.Sprintf(chatReply, "scale"), false, standard},
		{"chunks", "openai", "/v1/chat/completions", streamed, fmt.Sprintf(chunksReply, "flex"), true, flex},
		{"Responses", "openai", "/v1/responses", responses, fmt.Sprintf(responsesReply, "priority"), false, priority},
		{"Responses in another tier", "openai", "/v1/responses", responses, fmt.Sprintf(responsesReply, "default"), false, standard},
		{"a stream of Responses", "openai", "/v1/responses", strings.Replace(responses, "{", `{"stream":true,`, 1), events(
			`response.created {"type":"response.created","sequence_number":0,"response":`+strings.Replace(fmt.Sprintf(responsesReply, "priority"), `"completed"`, `"in_progress"`, 1)+`}`,
			`response.completed {"type":"response.completed","sequence_number":1,"response":`+fmt.Sprintf(responsesReply, "flex")+`}`,
		), true, flex},
		{"Messages", "anthropic", "/v1/messages", message, fmt.Sprintf(messagesReply, `"service_tier":"priority"`), false, priority},
		{"standard Messages", "anthropic", "/v1/messages", message, fmt.Sprintf(messagesReply, `"service_tier":"standard"`), false, standard},
		{"fast mode", "anthropic", "/v1/messages", message, fmt.Sprintf(messagesReply, `"service_tier":"standard","speed":"fast"`), false, fast},
		{"a stream of Messages", "anthropic", "/v1/messages", strings.Replace(message, "{", `{"stream":true,`, 1), events(
			`message_start {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"usage":{"input_tokens":600,"cache_read_input_tokens":400,"output_tokens":1,"service_tier":"priority"}}}`,
			`content_block_start {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
			`content_block_delta {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}`,
			`content_block_stop {"type":"content_block_stop","index":0}`,
			`message_delta {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":100}}`,
			`message_stop {"type":"message_stop"}`,
		), true, priority},
		{"chat at Anthropic", "anthropic", "/v1/chat/completions", chat, fmt.Sprintf(messagesReply, `"service_tier":"priority"`), false, priority},
		{"fast chat at Anthropic", "anthropic", "/v1/chat/completions", chat, fmt.Sprintf(messagesReply, `"speed":"fast"`), false, fast},
		{"Gemini", "gemini", "/v1beta/models/%s:generateContent", contents, fmt.Sprintf(geminiReply, `"serviceTier":"flex"`), false, flex},
		{"standard Gemini", "gemini", "/v1beta/models/%s:generateContent", contents, fmt.Sprintf(geminiReply, `"serviceTier":"standard"`), false, standard},
		{"a stream of Gemini", "gemini", "/v1beta/models/%s:streamGenerateContent?alt=sse", contents, "data: " + fmt.Sprintf(geminiReply, `"serviceTier":"priority"`) + "\r\n\r\n", true, priority},
		{"Vertex AI", "gemini", "/v1beta/models/%s:generateContent", contents, fmt.Sprintf(geminiReply, `"trafficType":"ON_DEMAND_FLEX"`), false, flex},
		{"paid in advance", "gemini", "/v1beta/models/%s:generateContent", contents, fmt.Sprintf(geminiReply, `"trafficType":"PROVISIONED_THROUGHPUT"`), false, "0"},
		{"on demand", "gemini", "/v1/chat/completions", chat, fmt.Sprintf(geminiReply, `"trafficType":"ON_DEMAND"`), false, standard},
		{"chat at Gemini", "gemini", "/v1/chat/completions", chat, fmt.Sprintf(geminiReply, `"serviceTier":"flex"`), false, flex},
		{"chat at Vertex AI", "gemini", "/v1/chat/completions", chat, fmt.Sprintf(geminiReply, `"trafficType":"ON_DEMAND_PRIORITY"`), false, priority},
		{"Bedrock", "bedrock", "/v1/chat/completions", chat, fmt.Sprintf(converseReply, "priority"), false, priority},
	}
	var models strings.Builder
	var scripts []upstreamtest.Script
	for i, c := range cases {
		kind := "application/json"
		if c.stream {
			kind = "text/event-stream"
		}
		rec := recording{status: 200, contentType: kind, body: c.response}
		fmt.Fprintf(&models, "[[models]]\nid = \"m-%d\"\nmax_tokens = 8000\ndefault_max_tokens = 100\ntargets = [{ provider = %q, model = \"m\" }]\n%s\n", i, c.plugin, serviceTiers)
		scripts = append(scripts, upstreamtest.Script{upstreamtest.ReadRequest(), rec.answer(false, nil, func(int) []int { return nil })})
	}
	text := pricedConfiguration(upstreamtest.New(t, scripts...).URL(), models.String())
	g := proxytest.Start(t, strings.Replace(text, `plugin = "openai"`, "plugin = \"openai\"\noptions = { forms = [\"responses\"] }", 1))
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			model := fmt.Sprintf("m-%d", i)
			r := g.Do(t, "POST", strings.Replace(c.path, "%s", model, 1), strings.Replace(c.request, "%s", model, 1))
			if r.Status != http.StatusOK || r.Err != nil {
				t.Fatalf("%d %v: %s", r.Status, r.Err, r.Body)
			}
			if line := g.Log.Request(t, r.RequestID()); line["cost"] != c.want {
				t.Errorf("logged cost %v, want %s: %s", line["cost"], c.want, r.Body)
			}
			if n := g.Log.Request(t, r.RequestID())["dropped_events"]; n != "" {
				t.Errorf("%s events were dropped", n)
			}
		})
	}
}

// TestHoldOfServiceTiers has a budget that suffices for a request in the standard tier, but not in the most expensive
// one. The amount held is that of the most expensive tier that the provider may use.
func TestHoldOfServiceTiers(t *testing.T) {
	b := newBiller(t)
	const usual = "pricing = { input = 1, output = 10 }"
	text := budgetConfiguration(b.URL, `budgets = [{ usd = 0.0015, per = "total" }]`, "", "", "")
	tiers := `pricing = { input = 1, output = 10, service_tiers = [{ name = "flex", factor = 0.5 }, { name = "priority", factor = 2 }] }`
	for _, c := range []struct {
		name, pricing, options, requested string
		want                              int
	}{
		{"no tiers", usual, "", "priority", 200}, {"no tier requested", tiers, "", "", 429}, {"auto", tiers, "", "auto", 429},
		{"standard tier", tiers, "", "default", 200}, {"cheaper tier", tiers, "", "flex", 200}, {"most expensive tier", tiers, "", "priority", 429},
		{"tier without prices", tiers, "", "scale", 429}, {"options set a tier", tiers, `, options = { set = { service_tier = "priority" } }`, "flex", 429},
		{"options set a cheaper tier", tiers, `, options = { set = { service_tier = "flex" } }`, "priority", 200},
		{"options set another member", tiers, `, options = { set = { metadata = { note = "mid_tier, at full speed" } } }`, "default", 200},
		{"options drop the tier", tiers, `, options = { drop = ["service_tier"] }`, "default", 429},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := strings.Replace(strings.Replace(text, usual, c.pricing, 1), `{ provider = "bill" }`, `{ provider = "bill"`+c.options+` }`, 1)
			g := proxytest.Start(t, config)
			body := budgetRequest(100, false)
			if c.requested != "" {
				body = strings.Replace(body, "{", fmt.Sprintf(`{"service_tier":%q,`, c.requested), 1)
			}
			if r := g.Chat(t, body); r.Status != c.want {
				t.Errorf("%d, want %d: %s", r.Status, c.want, r.Body)
			}
		})
	}
}

// TestHoldOfImages has a budget that suffices for an image with some models, but not with others.
func TestHoldOfImages(t *testing.T) {
	b := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`))
	}))
	defer b.Close()
	for _, c := range []struct {
		model, limit string
		want         int
	}{
		{"gpt-4o-2024-11-20", "", 200}, {"gpt-4o-mini", "", 429}, {"my-deployment", "", 429}, {"my-deployment", "max_image_tokens = 1445", 200}, {"gpt-4o-mini", "max_image_tokens = 2833", 200},
	} {
		text := budgetConfiguration(b.URL, `budgets = [{ usd = 0.01, per = "total" }]`, "", c.limit, "")
		g := proxytest.Start(t, strings.Replace(text, `{ provider = "bill" }`, `{ provider = "bill", model = "`+c.model+`" }`, 1))
		r := g.Chat(t, `{"model":"m","max_tokens":100,"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}]}]}`)
		if r.Status != c.want {
			t.Errorf("%s %s: %d, want %d: %s", c.model, c.limit, r.Status, c.want, r.Body)
		}
	}
}

// TestHoldOfBestOf has a budget that suffices for one legacy completion, but not for several with n or best_of.
func TestHoldOfBestOf(t *testing.T) {
	provider := answeringProvider(t, upstreamtest.Answer(200, "application/json", callAPIs[3].response, "Connection: close"))
	text := budgetConfiguration(provider.URL(), `budgets = [{ usd = 0.0015, per = "total" }]`, "", `kinds = ["completions"]`, `options = { forms = ["completions"] }`)
	for more, want := range map[string]int{"": 200, `,"best_of":1`: 200, `,"best_of":null`: 200, `,"best_of":2`: 429, `,"n":2`: 429, `,"n":1,"best_of":3`: 429} {
		g := proxytest.Start(t, text)
		if r := g.Do(t, "POST", "/v1/completions", `{"model":"m","prompt":"Hi","max_tokens":100`+more+`}`); r.Status != want {
			t.Errorf("%s: %d, want %d: %s", more, r.Status, want, r.Body)
		}
	}
}

package otlp

import (
	"net/url"
	"strings"

	"github.com/sluice-gateway/sluice/proxy/config"
)

// The names of attributes. Those of gen_ai are in both versions of the conventions unless noted.
const (
	attrErrorType = "error.type"
	attrMethod    = "http.request.method"
	attrRoute     = "http.route"
	attrStatus    = "http.response.status_code"
	attrServer    = "server.address"
	attrPort      = "server.port"

	attrOperation    = "gen_ai.operation.name"
	attrSystem       = "gen_ai.provider.name"
	attrRequestModel = "gen_ai.request.model"
	attrInputTokens  = "gen_ai.usage.input_tokens"
	attrOutputTokens = "gen_ai.usage.output_tokens"
	attrTokenType    = "gen_ai.token.type"
	attrSystemText   = "gen_ai.system_instructions"
	attrInput        = "gen_ai.input.messages"
	attrOutput       = "gen_ai.output.messages"

	// Only in genai-2026.
	attrStream          = "gen_ai.request.stream"
	attrFirstChunk      = "gen_ai.response.time_to_first_chunk"
	attrCacheRead       = "gen_ai.usage.cache_read.input_tokens"
	attrCacheWrite      = "gen_ai.usage.cache_write.input_tokens"
	attrReasoningTokens = "gen_ai.usage.reasoning.output_tokens"

	// The gateway's own.
	attrRequest          = "sluice.request"
	attrKey              = "sluice.key"
	attrPrincipal        = "sluice.principal"
	attrIdentity         = "sluice.identity"
	attrTeam             = "sluice.team"
	attrUser             = "sluice.user"
	attrModel            = "sluice.model"
	attrProvider         = "sluice.provider"
	attrTarget           = "sluice.target"
	attrRule             = "sluice.rule"
	attrTags             = "sluice.tags"
	attrFilters          = "sluice.filters"
	attrRouting          = "sluice.route"
	attrWarnings         = "sluice.warnings"
	attrGeneration       = "sluice.config.generation"
	attrConfigDigest     = "sluice.config.digest"
	attrHold             = "sluice.hold_usd"
	attrContentCut       = "sluice.content_cut"
	attrPlugin           = "sluice.plugin"
	attrPluginDigest     = "sluice.plugin.digest"
	attrCode             = "sluice.code"
	attrComplete         = "sluice.complete"
	attrAttempts         = "sluice.attempts"
	attrAttempt          = "sluice.attempt"
	attrReason           = "sluice.attempt.reason"
	attrCost             = "sluice.cost_usd"
	attrUnusedCost       = "sluice.unused_cost_usd"
	attrUncertainCost    = "sluice.uncertain_cost_usd"
	attrEstimated        = "sluice.usage_estimated"
	attrCancelledTokens  = "sluice.cancelled_tokens"
	attrFailedTokens     = "sluice.failed_tokens"
	attrDropped          = "sluice.dropped_events"
	attrFuel             = "sluice.fuel"
	attrUpstreamRequest  = "sluice.upstream_request"
	attrShadow           = "sluice.shadow"
	attrServiceName      = "service.name"
	attrServiceVersion   = "service.version"
	attrServiceInstance  = "service.instance.id"
	scopeName            = "github.com/sluice-gateway/sluice"
	conventionsGenAI2026 = "https://opentelemetry.io/schemas/1.44.0"
)

// metricNames are the names of the metrics of a version of the conventions; "" if it has no such metric.
type metricNames struct {
	duration      string // of inference
	otherDuration string // of other operations
	firstChunk    string
	tokenUsage    string // histogram of both kinds of tokens

	input, output, cacheRead, cacheWrite, reasoning string // counters
	inputSizes, outputSizes                         string // histograms
}

// metricVersions has the names of each version. Those of genai-2026 are in the repository semantic-conventions-genai of
// OpenTelemetry at commit 024a4f9; they are in development, and not part of a release.
var metricVersions = map[string]metricNames{
	config.NamesGenAI2026: {
		duration: "gen_ai.client.inference.duration", otherDuration: "gen_ai.client.operation.duration",
		firstChunk: "gen_ai.client.inference.time_to_first_chunk",
		input:      "gen_ai.client.inference.usage.input_tokens", output: "gen_ai.client.inference.usage.output_tokens",
		cacheRead: "gen_ai.client.inference.usage.cache_read.input_tokens", cacheWrite: "gen_ai.client.inference.usage.cache_write.input_tokens",
		reasoning:  "gen_ai.client.inference.usage.reasoning.output_tokens",
		inputSizes: "gen_ai.client.inference.operation.input_tokens", outputSizes: "gen_ai.client.inference.operation.output_tokens",
	},
	config.Names137: {
		duration: "gen_ai.client.operation.duration", otherDuration: "gen_ai.client.operation.duration", tokenUsage: "gen_ai.client.token.usage",
	},
}

// operation returns the name of the operation of a route.
func operation(route string) string {
	switch route {
	case "/v1/embeddings":
		return "embeddings"
	case "/v1/completions":
		return "text_completion"
	case "/v1/rerank", "/v2/rerank":
		return "rerank"
	case "/v1/moderations":
		return "moderation"
	}
	return "chat"
}

// isInference reports whether an operation generates text.
func isInference(operation string) bool { return operation == "chat" || operation == "text_completion" }

// providerInfo is what spans say about a provider.
type providerInfo struct {
	system  string // value of gen_ai.provider.name
	address string // "" if the plugin responds without an upstream
	port    int64
}

// systemsByHost are the conventions' names of providers, by the ends of their hosts.
var systemsByHost = []struct{ suffix, system string }{
	{"api.openai.com", "openai"}, {".openai.azure.com", "azure.ai.openai"}, {".cognitiveservices.azure.com", "azure.ai.openai"},
	{".services.ai.azure.com", "azure.ai.inference"}, {"api.anthropic.com", "anthropic"}, {"aiplatform.googleapis.com", "gcp.vertex_ai"},
	{"generativelanguage.googleapis.com", "gcp.gemini"}, {"api.cohere.com", "cohere"}, {"api.deepseek.com", "deepseek"},
	{"api.groq.com", "groq"}, {"api.mistral.ai", "mistral_ai"}, {"api.moonshot.ai", "moonshot_ai"}, {"api.perplexity.ai", "perplexity"},
	{"api.x.ai", "x_ai"}, {".amazonaws.com", "aws.bedrock"},
}

// describeProvider returns what spans say about a provider. A provider that the conventions do not name has its own
// name.
func describeProvider(p *config.Provider) providerInfo {
	info := providerInfo{system: p.Name}
	u, err := url.Parse(p.BaseURL)
	if p.BaseURL == "" || err != nil {
		return info
	}
	info.address, info.port = u.Hostname(), 443
	if u.Scheme == "http" {
		info.port = 80
	}
	if port := parsePort(u.Port()); port > 0 {
		info.port = port
	}
	for _, known := range systemsByHost {
		if strings.HasSuffix(info.address, known.suffix) {
			info.system = known.system
			break
		}
	}
	return info
}

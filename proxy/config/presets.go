package config

// preset is what the gateway knows about a bundled provider plugin, or about an upstream that one speaks to: the
// defaults of the providers that use it.
type preset struct {
	plugin  string // of an upstream's: the plugin that speaks to it
	baseURL string // of an upstream that has one address for everybody
	local   bool   // it answers by itself: no base_url, no credential
	auth    Auth
	paths   []string
	headers []string
	options object
}

// presets are the bundled providers by the name of their plugin. A plugin without a row, bundled or not, is told
// everything in its provider's table.
var presets = map[string]preset{
	"openai": {
		auth:  Auth{Header: "Authorization", Prefix: "Bearer "},
		paths: []string{"/chat/completions", "/models"},
	},
	"anthropic": {
		auth: Auth{Header: "x-api-key"},
		paths: []string{
			"/v1/messages", "/v1/models",
			"/v1/projects/*/locations/*/publishers/anthropic/models/*:rawPredict",
			"/v1/projects/*/locations/*/publishers/anthropic/models/*:streamRawPredict",
		},
		headers: []string{"anthropic-version", "anthropic-beta"},
	},
	"gemini": {
		auth: Auth{Header: "x-goog-api-key"},
		paths: []string{
			"/v1beta/models", "/v1beta/models/*:generateContent", "/v1beta/models/*:streamGenerateContent",
			"/v1/projects/*/locations/*/publishers/*/models/*:generateContent",
			"/v1/projects/*/locations/*/publishers/*/models/*:streamGenerateContent",
		},
	},
	"bedrock": {
		auth:  Auth{Header: "Authorization", Prefix: "Bearer "},
		paths: []string{"/model/*/converse", "/model/*/converse-stream"},
	},
	"cohere": {
		auth:  Auth{Header: "Authorization", Prefix: "Bearer "},
		paths: []string{"/v2/chat", "/v1/models"},
	},
	"ollama": {
		auth:  Auth{Header: "Authorization", Prefix: "Bearer "},
		paths: []string{"/api/chat", "/api/tags"},
	},
	"demo": {local: true},
}

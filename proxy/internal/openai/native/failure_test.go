package native_test

import (
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sluice-gateway/sluice/proxy/internal/openai/native"
)

// TestUpstreamErrors checks the errors that are specific to the OpenAI API. Each one is written as "status type code
// param message", followed by how it may be retried.
//
// covers: O14
func TestUpstreamErrors(t *testing.T) {
	const page = "<!DOCTYPE html>\n<html><head><title>502 Bad\tGateway</title><style>p > a { color: red }</style><script>alert('x')</script></head>\n<body><!-- a > b --><h1>502</h1>  if a < b &amp; c</body></html>"
	cases := []struct {
		name   string
		status int
		body   string
		want   string
	}{
		{"any/401", 401, `{"error":{"message":"Incorrect API key provided: sk-abc.","type":"invalid_request_error","code":"invalid_api_key"}}`,
			"502 upstream_error upstream_auth_failed - The provider refused the gateway's credential. next noretry"},
		{"any/403", 403, `{"error":{"message":"org-123 may not do this","type":"permission_error"}}`,
			"502 upstream_error upstream_auth_failed - The provider refused the gateway's credential. next noretry"},
		{"any/401 not JSON", 401, `Unauthorized: key sk-abc`, "502 upstream_error upstream_auth_failed - The provider refused the gateway's credential. next noretry"},
		{"any/401 empty", 401, ``, "502 upstream_error upstream_auth_failed - The provider refused the gateway's credential. next noretry"},
		{"any/400 for an invalid key", 400, `[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}]`,
			"502 upstream_error upstream_auth_failed - The provider refused the gateway's credential. next noretry"},
		{"OpenAI/400", 400, `{"error":{"message":"Unsupported parameter: 'max_tokens'.","type":"invalid_request_error","param":"max_tokens","code":"unsupported_parameter"}}`,
			"400 invalid_request_error unsupported_parameter max_tokens Unsupported parameter: 'max_tokens'."},
		{"OpenAI/400 without a code", 400, `{"error":{"message":"bad","type":"invalid_request_error","param":null,"code":null}}`, "400 invalid_request_error - - bad"},
		{"OpenAI/400 too long", 400, `{"error":{"message":"This model's maximum context length is 8192 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`,
			"400 invalid_request_error context_length_exceeded messages This model's maximum context length is 8192 tokens."},
		{"OpenAI/400 policy", 400, `{"error":{"message":"flagged","code":"content_policy_violation"}}`, "400 invalid_request_error content_policy_violation - flagged"},
		{"OpenAI/404 model", 404, `{"error":{"message":"The model 'x' does not exist","type":"invalid_request_error","param":null,"code":"model_not_found"}}`,
			"404 invalid_request_error model_not_found - The provider does not know this model. next"},
		{"OpenAI/403 model", 403, `{"error":{"message":"Project proj_1 has no access","code":"model_not_found"}}`, "404 invalid_request_error model_not_found - The provider does not know this model. next"},
		{"OpenAI/429 rate", 429, `{"error":{"message":"Rate limit reached for x in organization org-123","type":"requests","param":null,"code":"rate_limit_exceeded"}}`,
			"429 rate_limit_error rate_limit_exceeded - The provider's rate limit has been reached. next"},
		{"OpenAI/429 quota", 429, `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`,
			"429 insufficient_quota insufficient_quota - The gateway's quota with the provider is exhausted. next noretry"},
		{"OpenAI/429 spend limit", 429, `{"error":{"message":"x","type":"x","code":"project_spend_limit_exceeded"}}`,
			"429 insufficient_quota project_spend_limit_exceeded - The gateway's quota with the provider is exhausted. next noretry"},
		{"OpenAI/429 quota in the type", 429, `{"error":{"message":"x","type":"insufficient_quota"}}`, "429 insufficient_quota insufficient_quota - The gateway's quota with the provider is exhausted. next noretry"},
		{"OpenAI/500", 500, `{"error":{"message":"The server had an error","type":"server_error"}}`, "502 server_error upstream_error - The server had an error next"},
		{"OpenAI/502", 502, `{"error":{"message":"bad gateway"}}`, "502 server_error upstream_error - bad gateway next"},
		{"OpenAI/503", 503, `{"error":{"message":"slow","code":"slow_down"}}`, "503 server_error overloaded - slow next"},
		{"OpenAI/504", 504, `{"error":{"message":"late"}}`, "504 server_error upstream_timeout - late next"},
		{"OpenAI/529", 529, `{"error":{"type":"overloaded_error","message":"Overloaded"}}`, "503 server_error overloaded - Overloaded next"},
		{"OpenAI/500 without a message", 500, `{}`, "502 server_error upstream_error - The provider failed. next"},
		{"OpenAI/409", 409, `{"error":{"message":"busy"}}`, "409 invalid_request_error conflict - busy next"},
		{"OpenAI/413", 413, `{"error":{"message":"big"}}`, "413 invalid_request_error request_too_large - big"},
		{"OpenAI/422", 422, `{"detail":[{"loc":["body","x"],"msg":"field required"},{"msg":"too short"},{"loc":[]}]}`, "400 invalid_request_error - - field required; too short"},
		{"OpenAI/418", 418, `{"message":"no"}`, "400 invalid_request_error - - no"},
		{"OpenAI/499", 499, `{"error":{"message":"x"}}`, "502 upstream_error upstream_cancelled - The provider cancelled the request. next"},
		{"OpenRouter/402", 402, `{"error":{"code":402,"message":"Insufficient credits for user_1"}}`, "502 upstream_error upstream_billing - The gateway's account with the provider needs attention. next noretry"},
		{"OpenRouter/403 moderation", 403, `{"error":{"code":403,"message":"flagged","metadata":{"reasons":["violence"],"flagged_input":"…"}}}`,
			"400 invalid_request_error content_policy_violation - flagged"},
		{"OpenRouter/408", 408, `{"error":{"code":408,"message":"late"}}`, "504 server_error upstream_timeout - late next"},
		{"OpenRouter/502", 502, `{"error":{"code":502,"message":"down"}}`, "502 server_error upstream_error - down next"},
		{"OpenRouter/503", 503, `{"error":{"code":503,"message":"no provider"}}`, "503 server_error overloaded - no provider next"},
		{"Ollama/404", 404, `{"error":"model 'x' not found, try pulling it first"}`, "404 invalid_request_error model_not_found - The provider does not know this model. next"},
		{"Mistral/message as an object", 422, `{"object":"error","message":{"detail":[{"msg":"bad role"}]},"type":"invalid_request_error","code":"x1"}`, "400 invalid_request_error x1 - bad role"},
		{"page of a proxy", 502, page, "502 upstream_error upstream_error - 502 Bad Gateway 502 if a < b &amp; c next"},
		{"503", 503, `upstream connect error`, "502 upstream_error overloaded - upstream connect error next"},
		{"504", 504, ``, "502 upstream_error upstream_timeout - The provider did not respond in time. next"},
		{"404", 404, `<h1>Not Found</h1>`, "502 server_error upstream_not_found - The provider has no such endpoint. next"},
		{"OpenAI/404 path", 404, `{"error":{"message":"Invalid URL (POST /v1/v1/chat/completions)","type":"invalid_request_error","param":null,"code":null}}`, "502 server_error upstream_not_found - The provider has no such endpoint. next"},
		{"vLLM/404 path", 404, `{"detail":"Not Found"}`, "502 server_error upstream_not_found - The provider has no such endpoint. next"},
		{"vLLM/404 model", 404, `{"object":"error","message":"The model ` + "`x`" + ` does not exist.","type":"NotFoundError","param":null,"code":404}`, "404 invalid_request_error model_not_found - The provider does not know this model. next"},
		{"Azure/404 path", 404, `{"error":{"code":"404","message":"Resource not found"}}`, "502 server_error upstream_not_found - The provider has no such endpoint. next"},
		{"Azure/404 deployment", 404, `{"error":{"code":"DeploymentNotFound","message":"The API deployment for this resource does not exist."}}`, "404 invalid_request_error model_not_found - The provider does not know this model. next"},
		{"OpenRouter/404 model", 404, `{"error":{"message":"No endpoints found for acme/x.","code":404}}`, "404 invalid_request_error model_not_found - The provider does not know this model. next"},
		{"404 without a message", 404, `{}`, "502 server_error upstream_not_found - The provider has no such endpoint. next"},
		{"429", 429, `slow down, org-123`, "429 rate_limit_error rate_limit_exceeded - The provider's rate limit has been reached. next"},
		{"400", 400, "bad\x00\xff\r\n  request", "400 upstream_error - - bad request"},
		{"413", 413, "", "413 upstream_error request_too_large - The request is larger than the provider accepts."},
		{"a redirect", 302, "", "502 upstream_error upstream_error - The provider failed. next"},
		{"invalid UTF-8 in a script", 500, "<SCRIPT>\xf6\xf6\xf6\xf6\xf6\xf6\xf6\xf6</Script >bad <!-- \xf6\xf6\xf6\xf6\xf6\xf6\xf6\xf6 --> gateway", "502 upstream_error upstream_error - bad gateway next"},
		{"an unterminated script", 500, "<script>alert(1)", "502 upstream_error upstream_error - The provider failed. next"},
		{"an unterminated tag", 500, "a <b", "502 upstream_error upstream_error - a next"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			e := native.Failure(c.status, []byte(c.body))
			orDash := func(s string) string {
				if s == "" {
					return "-"
				}
				return s
			}
			got := strings.Join([]string{strconv.Itoa(e.Status), string(e.Kind), orDash(e.Code), orDash(e.Param), e.Message}, " ")
			if e.TryNext {
				got += " next"
			}
			if e.NoRetry {
				got += " noretry"
			}
			if got != c.want {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
			if e.UpstreamStatus != c.status || e.Cause == nil {
				t.Errorf("upstream status %d, cause %v", e.UpstreamStatus, e.Cause)
			}
			if log := e.Cause.Error(); strings.Contains(log, "sk-abc") || strings.Contains(log, "org-123") {
				t.Errorf("the cause reveals a secret: %s", log)
			}
		})
	}
}

// covers: O14
func TestLongErrorMessagesAreTruncated(t *testing.T) {
	for _, s := range []string{strings.Repeat("é", 400), "x" + strings.Repeat("€", 400), strings.Repeat("a ", 600)} {
		for _, e := range []string{
			native.Failure(500, []byte(s)).Message,
			native.Failure(400, []byte(`{"error":{"message":"`+s+`"}}`)).Message,
		} {
			if len(e) > 500 || len(e) < 490 || !utf8.ValidString(e) || !strings.HasPrefix(s, e) {
				t.Errorf("%d bytes: %s", len(e), e)
			}
		}
	}
}

func TestErrorText(t *testing.T) {
	for body, want := range map[string]string{
		`{"error":{"message":"Invalid URL (POST /v1/x)","type":"invalid_request_error","param":null,"code":"c"}}`: "invalid_request_error: c: Invalid URL (POST /v1/x)",
		`{"type":"error","error":{"type":"not_found_error","message":"Not Found"},"request_id":"r"}`:              "not_found_error: Not Found",
		`[{"error":{"code":404,"message":"models/x is not found","status":"NOT_FOUND"}}]`:                         "models/x is not found",
		`{"error":"model 'x' not found"}`: "model 'x' not found",
		`{"message":"no"}`:                "no",
		`{"Message":"no"}`:                "no",
		`{"detail":[{"msg":"field required"},{"msg":"too short"}]}`:               "field required; too short",
		`<html><head><style>p{}</style></head><h1>404</h1> page not found</html>`: "404 page not found",
		`404 page not found`: "404 page not found",
		`[]`:                 "", `"x"`: "", ``: "", `{}`: "", `{"error":null}`: "",
	} {
		if got := native.ErrorText([]byte(body)); got != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
}

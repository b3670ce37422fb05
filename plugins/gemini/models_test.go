package gemini

import (
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

func TestModelList(t *testing.T) {
	suite.EachForm(t, "", func(t *testing.T, b *plugintest.Binding) {
		for cursor, want := range map[string]string{
			"":         "/v1beta/models?pageSize=1000",
			"a b&c=d+": "/v1beta/models?pageSize=1000&pageToken=a%20b%26c%3Dd%2B",
		} {
			out, err := b.List(cursor)
			if err != nil || out.Path != want || len(out.Headers) != 0 {
				t.Errorf("list request is %+v (%v), want path %s without headers", out, err, want)
			}
		}
	})

	suite.TestModels(t, map[string]plugintest.ModelList{
		"two": {
			Body: `{"models":[{"name":"models/gemini-2.5-flash","version":"001","displayName":"Gemini 2.5 Flash","inputTokenLimit":1048576,"outputTokenLimit":65536,` +
				`"supportedGenerationMethods":["generateContent","countTokens"],"temperature":1,"thinking":true},` +
				`{"name":"models/text-embedding-004","supportedGenerationMethods":["embedContent"]},{"name":"models/imagen","supportedGenerationMethods":["predict"]},{"name":"tunedModels/x","outputTokenLimit":1.5}]}`,
			Models: `{"id":"gemini-2.5-flash","display_name":"Gemini 2.5 Flash","owned_by":"google","max_tokens":65536,"thinking":true,"kinds":["chat"]} {"id":"text-embedding-004","owned_by":"google","kinds":["embeddings"]} {"id":"tunedModels/x","owned_by":"google"}`,
		},
		"more":           {Body: `{"models":[{"name":"models/x"}],"nextPageToken":"t/="}`, Models: `{"id":"x","owned_by":"google"}`, Next: "t/="},
		"no models":      {Body: `{}`},
		"no name":        {Body: `{"models":[{"displayName":"x"},7,null,{"name":"models/"},{"name":"models/z"}]}`, Models: `{"id":"z","owned_by":"google"}`},
		"very long name": {Body: `{"models":[{"name":"models/` + strings.Repeat("x", 300) + `"}]}`},
	})
}

func TestVertexHasNoModelList(t *testing.T) {
	suite.EachForm(t, `{"api":"vertex","project":"p","location":"global"}`, func(t *testing.T, b *plugintest.Binding) {
		if out, err := b.List(""); err != nil || out.Path != "" {
			t.Errorf("list request is %+v (%v), want none", out, err)
		}
	})
}

func TestModelListErrors(t *testing.T) {
	suite.TestFailedLists(t, map[string]plugintest.FailedList{
		// covers: G34
		"bad key":    {Status: 400, Body: `{"error":{"code":400,"message":"x","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID"}]}}`, Code: "upstream_auth_failed"},
		"rate limit": {Status: 429, Body: `{"error":{"status":"RESOURCE_EXHAUSTED"}}`, Code: "rate_limit_exceeded"},
		"overloaded": {Status: 503, Body: ``, Code: "overloaded"},
		"not JSON":   {Status: 200, Body: `<html>`, Code: "upstream_bad_answer"},
		"array":      {Status: 200, Body: `[]`, Code: "upstream_bad_answer"},
		"truncated":  {Status: 200, Body: `{"models":[{"name":"models/x"}`, Code: "upstream_bad_answer"},
	})
}

func FuzzModels(f *testing.F) {
	suite.FuzzModels(f,
		`{"models":[{"name":"models/gemini-2.5-flash","displayName":"G","outputTokenLimit":65536,"supportedGenerationMethods":["generateContent"],"thinking":true}],"nextPageToken":"x"}`,
		`{"models":[{"name":"models/\ud83d"}]}`, `{"models":`)
}

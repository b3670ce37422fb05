package anthropic

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

func TestModelList(t *testing.T) {
	suite.EachForm(t, `{"version":"2024-01-01"}`, func(t *testing.T, b *plugintest.Binding) {
		for cursor, want := range map[string]string{
			"":                "/v1/models?limit=1000",
			"claude-3.5:beta": "/v1/models?limit=1000&after_id=claude-3.5:beta",
		} {
			out, err := b.List(cursor)
			if err != nil {
				t.Fatal(err)
			}
			if out.Path != want || !cmp.Equal(out.Headers, []plugintest.Header{{Name: "anthropic-version", Value: "2024-01-01"}}) {
				t.Errorf("list request is %+v, want path %s with the configured version", out, want)
			}
		}
	})

	suite.TestModels(t, map[string]plugintest.ModelList{
		"two": {
			Body: `{"data":[{"type":"model","id":"claude-a","display_name":"Claude A","created_at":"2025-09-29T00:00:00Z"},` +
				`{"type":"model","id":"claude-b","display_name":"Claude B","created_at":"2024-02-29T23:59:59Z","max_input_tokens":200000,"max_tokens":64000,` +
				`"capabilities":{"batch":{"supported":true},"thinking":{"supported":true,"types":{}}}}],"has_more":false,"first_id":"claude-a","last_id":"claude-b"}`,
			Models: `{"id":"claude-a","display_name":"Claude A","owned_by":"anthropic","created":1759104000} ` +
				`{"id":"claude-b","display_name":"Claude B","owned_by":"anthropic","created":1709251199,"max_tokens":64000,"thinking":true}`,
		},
		"more":                 {Body: `{"data":[{"id":"x"}],"has_more":true,"last_id":"x"}`, Models: `{"id":"x","owned_by":"anthropic"}`, Next: "x"},
		"invalid cursor":       {Body: `{"data":[{"id":"x"}],"has_more":true,"last_id":"x&y"}`, Models: `{"id":"x","owned_by":"anthropic"}`},
		"no models":            {Body: `{"data":[],"has_more":false,"first_id":null,"last_id":null}`},
		"no ID":                {Body: `{"data":[{"display_name":"x"},7,null,{"id":"z"}]}`, Models: `{"id":"z","owned_by":"anthropic"}`},
		"unknown release date": {Body: `{"data":[{"id":"x","created_at":"1970-01-01T00:00:00Z"}]}`, Models: `{"id":"x","owned_by":"anthropic"}`},
		"other time formats":   {Body: `{"data":[{"id":"x","created_at":"2025-09-29T00:00:00+02:00"},{"id":"y","created_at":"2025-9-29T00:00:00Z"}]}`, Models: `{"id":"x","owned_by":"anthropic"} {"id":"y","owned_by":"anthropic"}`},
		"nulls":                {Body: `{"data":[{"id":"x","display_name":null,"created_at":null,"max_tokens":null,"capabilities":null}]}`, Models: `{"id":"x","owned_by":"anthropic"}`},
	})
}

func TestModelListErrors(t *testing.T) {
	suite.TestFailedLists(t, map[string]plugintest.FailedList{
		"bad key":          {Status: 401, Body: `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}`, Code: "upstream_auth_failed"},
		"rate limit":       {Status: 429, Body: ``, Code: "rate_limit_exceeded"},
		"overloaded":       {Status: 529, Body: `{"type":"error","error":{"type":"overloaded_error","message":"x"}}`, Code: "overloaded"},
		"not JSON":         {Status: 200, Body: `<html>`, Code: "upstream_bad_answer"},
		"truncated":        {Status: 200, Body: `{"data":[{"id":"x"}`, Code: "upstream_bad_answer"},
		"no data":          {Status: 200, Body: `{"type":"model","id":"x"}`, Code: "upstream_bad_answer"},
		"data is no array": {Status: 200, Body: `{"data":{"id":"x"}}`, Code: "upstream_bad_answer"},
	})
}

func FuzzModels(f *testing.F) {
	suite.FuzzModels(f,
		`{"data":[{"type":"model","id":"claude-a","display_name":"A","created_at":"2025-09-29T00:00:00Z","max_tokens":1,"capabilities":{"thinking":{"supported":true}}}],"has_more":true,"last_id":"claude-a"}`,
		`{"data":[{"id":"\ud83d"}]}`, `{"data":`)
}

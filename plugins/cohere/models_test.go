package cohere

import (
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

func TestModelList(t *testing.T) {
	suite.EachForm(t, "", func(t *testing.T, b *plugintest.Binding) {
		for cursor, want := range map[string]string{
			"":          "/v1/models?page_size=1000",
			"a-1_b.~":   "/v1/models?page_size=1000&page_token=a-1_b.~",
			"x+/=&k=\n": "/v1/models?page_size=1000&page_token=x%2B%2F%3D%26k%3D%0A",
		} {
			out, err := b.List(cursor)
			if err != nil || out.Path != want || len(out.Headers) != 0 {
				t.Errorf("cursor %q: got %+v, %v, want path %s", cursor, out, err, want)
			}
		}
	})

	suite.TestModels(t, map[string]plugintest.ModelList{
		"two": {
			Body: `{"models":[{"name":"command-a-03-2025","is_deprecated":false,"endpoints":["chat","tokenize"],"finetuned":false,"context_length":288000,"tokenizer_url":"https://x","features":["tools","json_mode"],"default_endpoints":[],"supports_vision":false},` +
				`{"name":"command-a-reasoning-08-2025","endpoints":["generate","chat"],"features":["reasoning","tools"]}]}`,
			Models: `{"id":"command-a-03-2025","owned_by":"cohere","kinds":["chat"]} {"id":"command-a-reasoning-08-2025","owned_by":"cohere","thinking":true,"kinds":["chat"]}`,
		},
		"more": {Body: `{"models":[{"name":"x"}],"next_page_token":"p+2"}`, Models: `{"id":"x","owned_by":"cohere"}`, Next: "p+2"},
		"other kinds": {
			Body:   `{"models":[{"name":"embed-v4.0","endpoints":["embed","classify"]},{"name":"none","endpoints":["classify"]},{"name":"nothing","endpoints":[]},{"name":"rerank-v3.5","endpoints":["rerank"]},{"name":"x","endpoints":null,"features":null}]}`,
			Models: `{"id":"embed-v4.0","owned_by":"cohere","kinds":["embeddings"]} {"id":"rerank-v3.5","owned_by":"cohere","kinds":["rerank"]} {"id":"x","owned_by":"cohere"}`,
		},
		"nothing":          {Body: `{"models":[],"next_page_token":""}`},
		"without a name":   {Body: `{"models":[{"endpoints":["chat"]},7,null,{"name":""},{"name":"z"}]}`, Models: `{"id":"z","owned_by":"cohere"}`},
		"no further token": {Body: `{"models":[{"name":"x"}],"next_page_token":null}`, Models: `{"id":"x","owned_by":"cohere"}`},
	})
}

func TestModelListErrors(t *testing.T) {
	suite.TestFailedLists(t, map[string]plugintest.FailedList{
		"bad key":    {Status: 401, Body: `{"id":"x","message":"invalid api token"}`, Code: "upstream_auth_failed"},
		"too many":   {Status: 429, Body: ``, Code: "rate_limit_exceeded"},
		"not json":   {Status: 200, Body: `<html>`, Code: "upstream_bad_answer"},
		"cut":        {Status: 200, Body: `{"models":[{"name":"x"}`, Code: "upstream_bad_answer"},
		"no list":    {Status: 200, Body: `{"id":"x"}`, Code: "upstream_bad_answer"},
		"not a list": {Status: 200, Body: `{"models":{"name":"x"}}`, Code: "upstream_bad_answer"},
	})
}

func FuzzModels(f *testing.F) {
	suite.FuzzModels(f,
		`{"models":[{"name":"command","endpoints":["chat"],"features":["reasoning"]}],"next_page_token":"x"}`,
		`{"models":[{"name":"\ud83d"}]}`, `{"models":`)
}

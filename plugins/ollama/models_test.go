package ollama

import (
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

func TestModelList(t *testing.T) {
	suite.EachForm(t, "", func(t *testing.T, b *plugintest.Binding) {
		out, err := b.List("")
		if err != nil || out.Path != "/api/tags" || len(out.Headers) != 0 {
			t.Errorf("got request %+v, %v, want path /api/tags", out, err)
		}
	})

	suite.TestModels(t, map[string]plugintest.ModelList{
		"two": {
			Body: `{"models":[{"name":"llama3.2:latest","model":"llama3.2:latest","modified_at":"2025-05-04T17:37:44.706015396-07:00","size":3826793677,"digest":"x","details":{"family":"llama"}},` +
				`{"name":"qwen3:8b","model":"qwen3:8b","modified_at":"2024-02-29T23:59:59Z","capabilities":["completion","tools","thinking"]}]}`,
			Models: `{"id":"llama3.2:latest","owned_by":"library","created":1746405464} {"id":"qwen3:8b","owned_by":"library","created":1709251199,"thinking":true,"kinds":["chat"]}`,
		},
		"owners": {
			Body:   `{"models":[{"model":"ann/bot:1b"},{"model":"hf.co/bob/Bot-GGUF:Q4_K_M"},{"model":"/x"}]}`,
			Models: `{"id":"ann/bot:1b","owned_by":"ann"} {"id":"hf.co/bob/Bot-GGUF:Q4_K_M","owned_by":"bob"} {"id":"/x","owned_by":"library"}`,
		},
		"an older server": {Body: `{"models":[{"name":"x"},{"model":"","name":"y"}]}`, Models: `{"id":"x","owned_by":"library"} {"id":"y","owned_by":"library"}`},
		"other kinds": {
			Body:   `{"models":[{"model":"embed","capabilities":["embedding"]},{"model":"both","capabilities":["completion","embedding"]},{"model":"none","capabilities":["image"]},{"model":"x","capabilities":null}]}`,
			Models: `{"id":"embed","owned_by":"library","kinds":["embeddings"]} {"id":"both","owned_by":"library","kinds":["chat","embeddings"]} {"id":"x","owned_by":"library"}`,
		},
		"nothing":          {Body: `{"models":[]}`},
		"null for nothing": {Body: `{"models":null}`},
		"without a name":   {Body: `{"models":[{"size":1},7,null,{"model":"z"}]}`, Models: `{"id":"z","owned_by":"library"}`},
		"times": {
			Body: `{"models":[{"model":"a","modified_at":"1970-01-01T01:00:01.5+00:30"},{"model":"b","modified_at":"1970-01-01T00:00:00+01:00"},` +
				`{"model":"c","modified_at":"2025-8-1T00:00:00Z"},{"model":"d","modified_at":"2025-08-01T00:00:00"},{"model":"e","modified_at":"2025-08-01T00:00:00 UTC"},{"model":"f","modified_at":null}]}`,
			Models: `{"id":"a","owned_by":"library","created":1801} {"id":"b","owned_by":"library"} {"id":"c","owned_by":"library"} {"id":"d","owned_by":"library"} {"id":"e","owned_by":"library"} {"id":"f","owned_by":"library"}`,
		},
	})
}

func TestModelListErrors(t *testing.T) {
	suite.TestFailedLists(t, map[string]plugintest.FailedList{
		"bad key":    {Status: 401, Body: `{"error":"unauthorized"}`, Code: "upstream_auth_failed"},
		"busy":       {Status: 503, Body: `{"error":"busy"}`, Code: "overloaded"},
		"not json":   {Status: 200, Body: `Ollama is running`, Code: "upstream_bad_answer"},
		"cut":        {Status: 200, Body: `{"models":[{"model":"x"}`, Code: "upstream_bad_answer"},
		"no list":    {Status: 200, Body: `{"version":"0.5"}`, Code: "upstream_bad_answer"},
		"not a list": {Status: 200, Body: `{"models":{"model":"x"}}`, Code: "upstream_bad_answer"},
	})
}

func FuzzModels(f *testing.F) {
	suite.FuzzModels(f,
		`{"models":[{"name":"a","model":"hf.co/b/a:1","modified_at":"2025-05-04T17:37:44.706-07:00","capabilities":["completion","thinking"]}]}`,
		`{"models":[{"model":"\ud83d"}]}`, `{"models":[{"model":"a","modified_at":"2025-05-04T17:37:44."}]}`, `{"models":`)
}

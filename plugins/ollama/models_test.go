package ollama

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

func TestModelList(t *testing.T) {
	forms(t, "", func(t *testing.T, b *plugintest.Binding) {
		out, err := b.List(context.Background(), nil)
		if err != nil || out.Path != "/api/tags" || len(out.Headers) != 0 {
			t.Errorf("the request is %+v, %v", out, err)
		}
		for name, test := range map[string]struct{ body, want string }{
			"two": {
				`{"models":[{"name":"llama3.2:latest","model":"llama3.2:latest","modified_at":"2025-05-04T17:37:44.706015396-07:00","size":3826793677,"digest":"x","details":{"family":"llama"}},` +
					`{"name":"qwen3:8b","model":"qwen3:8b","modified_at":"2024-02-29T23:59:59Z","capabilities":["completion","tools","thinking"]}]}`,
				`{"id":"llama3.2:latest","owned_by":"library","created":1746405464} {"id":"qwen3:8b","owned_by":"library","created":1709251199,"thinking":true}`,
			},
			"owners": {
				`{"models":[{"model":"ann/bot:1b"},{"model":"hf.co/bob/Bot-GGUF:Q4_K_M"},{"model":"/x"}]}`,
				`{"id":"ann/bot:1b","owned_by":"ann"} {"id":"hf.co/bob/Bot-GGUF:Q4_K_M","owned_by":"bob"} {"id":"/x","owned_by":"library"}`,
			},
			"an older server":  {`{"models":[{"name":"x"},{"model":"","name":"y"}]}`, `{"id":"x","owned_by":"library"} {"id":"y","owned_by":"library"}`},
			"not for chat":     {`{"models":[{"model":"embed","capabilities":["embedding"]},{"model":"x","capabilities":null}]}`, `{"id":"x","owned_by":"library"}`},
			"nothing":          {`{"models":[]}`, ""},
			"null for nothing": {`{"models":null}`, ""},
			"without a name":   {`{"models":[{"size":1},7,null,{"model":"z"}]}`, `{"id":"z","owned_by":"library"}`},
			"times": {
				`{"models":[{"model":"a","modified_at":"1970-01-01T01:00:01.5+00:30"},{"model":"b","modified_at":"1970-01-01T00:00:00+01:00"},` +
					`{"model":"c","modified_at":"2025-8-1T00:00:00Z"},{"model":"d","modified_at":"2025-08-01T00:00:00"},{"model":"e","modified_at":"2025-08-01T00:00:00 UTC"},{"model":"f","modified_at":null}]}`,
				`{"id":"a","owned_by":"library","created":1801} {"id":"b","owned_by":"library"} {"id":"c","owned_by":"library"} {"id":"d","owned_by":"library"} {"id":"e","owned_by":"library"} {"id":"f","owned_by":"library"}`,
			},
		} {
			t.Run(name, func(t *testing.T) {
				page, err := b.Models(context.Background(), 200, nil, []byte(test.body))
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, m := range page.Models {
					got = append(got, string(m))
				}
				if s := strings.Join(got, " "); s != test.want || page.Next != "" {
					t.Errorf("models %s, next %q, want %s", s, page.Next, test.want)
				}
			})
		}
	})
}

func TestModelListErrors(t *testing.T) {
	forms(t, "", func(t *testing.T, b *plugintest.Binding) {
		for name, test := range map[string]struct {
			status int
			body   string
			want   string
		}{
			"bad key":    {401, `{"error":"unauthorized"}`, "upstream_auth_failed"},
			"busy":       {503, `{"error":"busy"}`, "overloaded"},
			"not json":   {200, `Ollama is running`, "upstream_bad_answer"},
			"cut":        {200, `{"models":[{"model":"x"}`, "upstream_bad_answer"},
			"no list":    {200, `{"version":"0.5"}`, "upstream_bad_answer"},
			"not a list": {200, `{"models":{"model":"x"}}`, "upstream_bad_answer"},
		} {
			t.Run(name, func(t *testing.T) {
				page, err := b.Models(context.Background(), test.status, nil, []byte(test.body))
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("error %v, want %s", err, test.want)
				}
				if len(page.Models) != 0 {
					t.Errorf("%d models beside the error", len(page.Models))
				}
			})
		}
	})
}

func FuzzModels(f *testing.F) {
	for _, seed := range []string{
		`{"models":[{"name":"a","model":"hf.co/b/a:1","modified_at":"2025-05-04T17:37:44.706-07:00","capabilities":["completion","thinking"]}]}`,
		`{"models":[{"model":"\ud83d"}]}`, `{"models":[{"model":"a","modified_at":"2025-05-04T17:37:44."}]}`, `{"models":`, `[[[`, `null`,
	} {
		f.Add(seed)
	}
	b := suite.Bind(f, plugintest.Host(f), plugintest.Native)
	f.Fuzz(func(t *testing.T, body string) {
		_, err := b.Models(context.Background(), 200, nil, []byte(body))
		var failed *plugintest.CallError
		if errors.As(err, &failed) {
			t.Errorf("the plugin failed: %v", err)
		}
	})
}

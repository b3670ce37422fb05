package cohere

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

func TestModelList(t *testing.T) {
	forms(t, "", func(t *testing.T, b *plugintest.Binding) {
		for cursor, want := range map[string]string{
			"":          "/v1/models?endpoint=chat&page_size=1000",
			"a-1_b.~":   "/v1/models?endpoint=chat&page_size=1000&page_token=a-1_b.~",
			"x+/=&k=\n": "/v1/models?endpoint=chat&page_size=1000&page_token=x%2B%2F%3D%26k%3D%0A",
		} {
			out, err := b.List(context.Background(), []byte(cursor))
			if err != nil || out.Path != want || len(out.Headers) != 0 {
				t.Errorf("the request for %q is %+v, %v", cursor, out, err)
			}
		}
		for name, test := range map[string]struct{ body, want, next string }{
			"two": {
				`{"models":[{"name":"command-a-03-2025","is_deprecated":false,"endpoints":["chat","tokenize"],"finetuned":false,"context_length":288000,"tokenizer_url":"https://x","features":["tools","json_mode"],"default_endpoints":[],"supports_vision":false},` +
					`{"name":"command-a-reasoning-08-2025","endpoints":["generate","chat"],"features":["reasoning","tools"]}]}`,
				`{"id":"command-a-03-2025","owned_by":"cohere"} {"id":"command-a-reasoning-08-2025","owned_by":"cohere","thinking":true}`, "",
			},
			"more":             {`{"models":[{"name":"x"}],"next_page_token":"p+2"}`, `{"id":"x","owned_by":"cohere"}`, "p+2"},
			"not for chat":     {`{"models":[{"name":"embed","endpoints":["embed"]},{"name":"none","endpoints":[]},{"name":"x","endpoints":null,"features":null}]}`, `{"id":"x","owned_by":"cohere"}`, ""},
			"nothing":          {`{"models":[],"next_page_token":""}`, "", ""},
			"without a name":   {`{"models":[{"endpoints":["chat"]},7,null,{"name":""},{"name":"z"}]}`, `{"id":"z","owned_by":"cohere"}`, ""},
			"no further token": {`{"models":[{"name":"x"}],"next_page_token":null}`, `{"id":"x","owned_by":"cohere"}`, ""},
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
				if s := strings.Join(got, " "); s != test.want || page.Next != test.next {
					t.Errorf("models %s, next %q, want %s, %q", s, page.Next, test.want, test.next)
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
			"bad key":    {401, `{"id":"x","message":"invalid api token"}`, "upstream_auth_failed"},
			"too many":   {429, ``, "rate_limit_exceeded"},
			"not json":   {200, `<html>`, "upstream_bad_answer"},
			"cut":        {200, `{"models":[{"name":"x"}`, "upstream_bad_answer"},
			"no list":    {200, `{"id":"x"}`, "upstream_bad_answer"},
			"not a list": {200, `{"models":{"name":"x"}}`, "upstream_bad_answer"},
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
		`{"models":[{"name":"command","endpoints":["chat"],"features":["reasoning"]}],"next_page_token":"x"}`,
		`{"models":[{"name":"\ud83d"}]}`, `{"models":`, `[[[`, `null`,
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

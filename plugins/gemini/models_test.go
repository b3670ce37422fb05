package gemini

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
			"":         "/v1beta/models?pageSize=1000",
			"a b&c=d+": "/v1beta/models?pageSize=1000&pageToken=a%20b%26c%3Dd%2B",
		} {
			out, err := b.List(context.Background(), []byte(cursor))
			if err != nil || out.Path != want || len(out.Headers) != 0 {
				t.Errorf("the request is %+v, %v", out, err)
			}
		}
		for name, test := range map[string]struct{ body, want, next string }{
			"two": {
				`{"models":[{"name":"models/gemini-2.5-flash","version":"001","displayName":"Gemini 2.5 Flash","inputTokenLimit":1048576,"outputTokenLimit":65536,` +
					`"supportedGenerationMethods":["generateContent","countTokens"],"temperature":1,"thinking":true},` +
					`{"name":"models/text-embedding-004","supportedGenerationMethods":["embedContent"]},{"name":"tunedModels/x","outputTokenLimit":1.5}]}`,
				`{"id":"gemini-2.5-flash","display_name":"Gemini 2.5 Flash","owned_by":"google","max_tokens":65536,"thinking":true} {"id":"tunedModels/x","owned_by":"google"}`, "",
			},
			"more":            {`{"models":[{"name":"models/x"}],"nextPageToken":"t/="}`, `{"id":"x","owned_by":"google"}`, "t/="},
			"nothing":         {`{}`, "", ""},
			"without a name":  {`{"models":[{"displayName":"x"},7,null,{"name":"models/"},{"name":"models/z"}]}`, `{"id":"z","owned_by":"google"}`, ""},
			"an endless name": {`{"models":[{"name":"models/` + strings.Repeat("x", 300) + `"}]}`, "", ""},
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

func TestVertexHasNoModelList(t *testing.T) {
	forms(t, `{"api":"vertex","project":"p","location":"global"}`, func(t *testing.T, b *plugintest.Binding) {
		if out, err := b.List(context.Background(), nil); err != nil || out.Path != "" {
			t.Errorf("the request is %+v, %v", out, err)
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
			// covers: G34
			"bad key":    {400, `{"error":{"code":400,"message":"x","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID"}]}}`, "upstream_auth_failed"},
			"too many":   {429, `{"error":{"status":"RESOURCE_EXHAUSTED"}}`, "rate_limit_exceeded"},
			"overloaded": {503, ``, "overloaded"},
			"not json":   {200, `<html>`, "upstream_bad_answer"},
			"a list":     {200, `[]`, "upstream_bad_answer"},
			"cut":        {200, `{"models":[{"name":"models/x"}`, "upstream_bad_answer"},
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
		`{"models":[{"name":"models/gemini-2.5-flash","displayName":"G","outputTokenLimit":65536,"supportedGenerationMethods":["generateContent"],"thinking":true}],"nextPageToken":"x"}`,
		`{"models":[{"name":"models/\ud83d"}]}`, `{"models":`, `[[[`, `null`,
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

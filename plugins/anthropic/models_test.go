package anthropic

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

func TestModelList(t *testing.T) {
	forms(t, `{"version":"2024-01-01"}`, func(t *testing.T, b *plugintest.Binding) {
		for cursor, want := range map[string]string{
			"":                "/v1/models?limit=1000",
			"claude-3.5:beta": "/v1/models?limit=1000&after_id=claude-3.5:beta",
		} {
			out, err := b.List(context.Background(), []byte(cursor))
			if err != nil {
				t.Fatal(err)
			}
			if out.Path != want || !cmp.Equal(out.Headers, []plugintest.Header{{Name: "anthropic-version", Value: "2024-01-01"}}) {
				t.Errorf("the request is %+v", out)
			}
		}
		for name, test := range map[string]struct{ body, want, next string }{
			"two": {
				`{"data":[{"type":"model","id":"claude-a","display_name":"Claude A","created_at":"2025-09-29T00:00:00Z"},` +
					`{"type":"model","id":"claude-b","display_name":"Claude B","created_at":"2024-02-29T23:59:59Z","max_input_tokens":200000,"max_tokens":64000,` +
					`"capabilities":{"batch":{"supported":true},"thinking":{"supported":true,"types":{}}}}],"has_more":false,"first_id":"claude-a","last_id":"claude-b"}`,
				`{"id":"claude-a","display_name":"Claude A","owned_by":"anthropic","created":1759104000} ` +
					`{"id":"claude-b","display_name":"Claude B","owned_by":"anthropic","created":1709251199,"max_tokens":64000,"thinking":true}`, "",
			},
			"more":            {`{"data":[{"id":"x"}],"has_more":true,"last_id":"x"}`, `{"id":"x","owned_by":"anthropic"}`, "x"},
			"no way to more":  {`{"data":[{"id":"x"}],"has_more":true,"last_id":"x&y"}`, `{"id":"x","owned_by":"anthropic"}`, ""},
			"nothing":         {`{"data":[],"has_more":false,"first_id":null,"last_id":null}`, "", ""},
			"without an id":   {`{"data":[{"display_name":"x"},7,null,{"id":"z"}]}`, `{"id":"z","owned_by":"anthropic"}`, ""},
			"release unknown": {`{"data":[{"id":"x","created_at":"1970-01-01T00:00:00Z"}]}`, `{"id":"x","owned_by":"anthropic"}`, ""},
			"other times":     {`{"data":[{"id":"x","created_at":"2025-09-29T00:00:00+02:00"},{"id":"y","created_at":"2025-9-29T00:00:00Z"}]}`, `{"id":"x","owned_by":"anthropic"} {"id":"y","owned_by":"anthropic"}`, ""},
			"nulls":           {`{"data":[{"id":"x","display_name":null,"created_at":null,"max_tokens":null,"capabilities":null}]}`, `{"id":"x","owned_by":"anthropic"}`, ""},
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
			"bad key":    {401, `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}`, "upstream_auth_failed"},
			"too many":   {429, ``, "rate_limit_exceeded"},
			"overloaded": {529, `{"type":"error","error":{"type":"overloaded_error","message":"x"}}`, "overloaded"},
			"not json":   {200, `<html>`, "upstream_bad_answer"},
			"cut":        {200, `{"data":[{"id":"x"}`, "upstream_bad_answer"},
			"no list":    {200, `{"type":"model","id":"x"}`, "upstream_bad_answer"},
			"not a list": {200, `{"data":{"id":"x"}}`, "upstream_bad_answer"},
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
		`{"data":[{"type":"model","id":"claude-a","display_name":"A","created_at":"2025-09-29T00:00:00Z","max_tokens":1,"capabilities":{"thinking":{"supported":true}}}],"has_more":true,"last_id":"claude-a"}`,
		`{"data":[{"id":"\ud83d"}]}`, `{"data":`, `[[[`, `null`,
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

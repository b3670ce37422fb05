package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/plugintest"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// translatingPlugins are the plugins that translate another API, with additional keys of their provider. Each has
// vectors with responses of its provider, and the responses that a client must get for them.
var translatingPlugins = map[string]string{
	"bedrock":   `auth = { secret = "sk-vector-canary" }`,
	"cohere":    `auth = { secret = "sk-vector-canary" }`,
	"gemini":    `auth = { secret = "sk-vector-canary" }`,
	"ollama":    ``,
	"anthropic": `auth = { secret = "sk-vector-canary" }`,
}

// inlineTOML returns a JSON value as TOML.
func inlineTOML(t *testing.T, v any) string {
	switch v := v.(type) {
	case map[string]any:
		var members []string
		for _, name := range slices.Sorted(maps.Keys(v)) {
			members = append(members, fmt.Sprintf("%q = %s", name, inlineTOML(t, v[name])))
		}
		return "{ " + strings.Join(members, ", ") + " }"
	case []any:
		var elements []string
		for _, e := range v {
			elements = append(elements, inlineTOML(t, e))
		}
		return "[" + strings.Join(elements, ", ") + "]"
	case nil:
		t.Fatal("TOML has no null")
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// vectorRequest returns a vector's request for a model, streaming with usage or non-streaming.
func vectorRequest(t *testing.T, request []byte, model string, streamed bool) string {
	t.Helper()
	var d jsondoc.Doc
	if err := d.Parse(request, jsondoc.Limits{}); err != nil {
		t.Fatal(err)
	}
	var e jsondoc.Edits
	e.Reset(&d)
	e.Set([]byte("/model"), []byte(`"`+model+`"`))
	if streamed {
		e.Set([]byte("/stream"), []byte("true"))
		e.Set([]byte("/stream_options"), []byte(`{"include_usage":true}`))
	} else {
		e.Delete([]byte("/stream"))
		e.Delete([]byte("/stream_options"))
	}
	out, err := e.Apply(nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// wantSection returns the named section of a vector's want.txt: a status, the body and the Retry-After.
func wantSection(want, name string) (status int, body, retryAfter string) {
	var err error
	_, rest, _ := strings.Cut("\n"+want, "\n-- "+name+" --\n")
	rest, _, _ = strings.Cut(rest+"\n-- ", "\n-- ")
	line, body, _ := strings.Cut(rest, "\n")
	if status, err = strconv.Atoi(line); err != nil {
		// An error has a line with the cause before the response.
		line, body, _ = strings.Cut(body, "\n")
		if status, err = strconv.Atoi(line); err != nil {
			return 0, "", ""
		}
	}
	body, retryAfter, _ = strings.Cut(body, "\nretry after ")
	return status, strings.TrimRight(body, "\n"), strings.TrimSpace(retryAfter)
}

// estimate matches estimated usage. The gateway's estimates differ from those of package plugintest.
var estimate = regexp.MustCompile(`"prompt_tokens":\d+,("completion_tokens":\d+),"total_tokens":\d+(,"estimated":true)`)

// thinkingToken matches the token that the gateway, not the plugin, adds to a tool call for the client to return.
var thinkingToken = regexp.MustCompile(`,"extra_content":\{"google":\{"thought_signature":"sluice\.thinking\.[^"]*"\}\}`)

// TestPluginVectorsThroughGateway replays the provider's response of every vector of every translating plugin over real
// sockets, at once, byte by byte and split at random offsets, to a streaming and a non-streaming client.
func TestPluginVectorsThroughGateway(t *testing.T) {
	if testing.Short() {
		t.Skip("sends every vector of every plugin")
	}
	for name, credential := range translatingPlugins {
		t.Run(name, func(t *testing.T) { replayVectors(t, name, credential) })
	}
}

func replayVectors(t *testing.T, name, credential string) {
	dir := filepath.Join("..", "..", "..", "..", "plugins", name, "testdata", "vectors")
	all, err := plugintest.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	const seed = 7
	rnd := rand.New(rand.NewPCG(seed, 2))
	cuts := []struct {
		name    string
		offsets func(n int) []int
	}{
		{"at once", func(int) []int { return nil }},
		{"in bytes", func(n int) (cut []int) {
			for i := 1; i < min(n, 2000); i++ {
				cut = append(cut, i)
			}
			return cut
		}},
		{"at random", func(n int) (cut []int) {
			for range 12 {
				cut = append(cut, 1+rnd.IntN(n-1))
			}
			slices.Sort(cut)
			return cut
		}},
	}
	if testing.Short() {
		cuts = cuts[:1]
	}
	type run struct {
		v        *plugintest.Vector
		want     string
		cut      string
		streamed bool
	}
	var runs []run
	var scripts []upstreamtest.Script
	var models strings.Builder
	for i, v := range all {
		if len(bytes.TrimSpace(v.Response)) == 0 || v.Settings != nil || v.Form != "" {
			continue // the host rejects an empty response before a plugin sees it
		}
		want, err := os.ReadFile(filepath.Join(dir, v.Name, "want.txt"))
		if err != nil {
			t.Fatal(err)
		}
		options := "{}"
		if len(v.Options) > 0 {
			var o any
			if err := json.Unmarshal(v.Options, &o); err != nil {
				t.Fatal(err)
			}
			options = inlineTOML(t, o)
		}
		fmt.Fprintf(&models, "[[models]]\nid = \"v-%d\"\nretry = { attempts = 1 }\ndisplay_name = \"V\"\nowned_by = \"x\"\ncreated = 2026-01-01\nthinking = true\ntargets = [{ provider = \"p\", model = %q, options = %s }]\n", i, v.Target, options)
		if v.Limits.MaxTokens > 0 {
			fmt.Fprintf(&models, "max_tokens = %d\n", v.Limits.MaxTokens)
		}
		if v.Limits.DefaultMaxTokens > 0 {
			fmt.Fprintf(&models, "default_max_tokens = %d\n", v.Limits.DefaultMaxTokens)
		}
		rec := recording{name: v.Name, status: v.Status, contentType: v.ContentType, body: string(v.Response)}
		for _, name := range slices.Sorted(maps.Keys(v.Headers)) {
			rec.headers += name + ": " + v.Headers[name] + "\r\n"
		}
		v.Name = fmt.Sprintf("%s|v-%d", v.Name, i)
		for _, cut := range cuts {
			for _, streamed := range []bool{false, true} {
				runs = append(runs, run{v, string(want), cut.name, streamed})
				scripts = append(scripts, upstreamtest.Script{upstreamtest.ReadRequest(), rec.answer(cut.name != "at once" && v.Status == 200, rnd, cut.offsets)})
			}
		}
	}
	if len(runs) < 100 {
		t.Fatalf("got %d runs, want at least 100", len(runs))
	}
	provider := upstreamtest.New(t, scripts...)
	g := proxytest.Start(t, fmt.Sprintf("%s\n[providers.p]\nplugin = %q\nbase_url = %q\nbreaker = { enabled = false }\n%s\n%s", proxytest.Keys, name, provider.URL(), credential, models.String()))
	for _, r := range runs {
		title, model, _ := strings.Cut(r.v.Name, "|")
		t.Run(fmt.Sprintf("%s/%s/streamed %v", title, r.cut, r.streamed), func(t *testing.T) {
			got := g.Chat(t, vectorRequest(t, r.v.Request, model, r.streamed))
			status, want, retryAfter := wantSection(r.want, map[bool]string{false: "whole", true: "stream"}[r.streamed])
			body := strings.TrimRight(got.Body, "\n")
			clean := func(s string) string {
				return thinkingToken.ReplaceAllString(estimate.ReplaceAllString(normalizedResponse(s), `$1$2`), ``)
			}
			if got.Status != status || clean(body) != clean(want) {
				t.Errorf("got %d\n%s\nwant %d\n%s", got.Status, clean(body), status, clean(want))
			}
			if retryAfter != "" && got.Header.Get("Retry-After") == "" {
				t.Errorf("the response has no Retry-After, want %s", retryAfter)
			}
		})
	}
}

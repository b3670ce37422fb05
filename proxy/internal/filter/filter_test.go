package filter_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/filter"
	"github.com/sluice-gateway/sluice/proxy/internal/messages"
	"github.com/sluice-gateway/sluice/proxy/internal/openai"
	"github.com/sluice-gateway/sluice/proxy/internal/openai/native"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/proxy/internal/responses"
	"github.com/sluice-gateway/sluice/proxy/internal/thinking"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// word is a filter that replaces a word, refuses another one and traps at a third.
type word struct {
	host              abi.Host
	find, put         string
	refuse, trap, tag string
	spelled           []byte // put
}

func (*word) Has(export string) bool {
	return export == abi.ExportConfigure || export == abi.ExportFilterText || export == abi.ExportFilterRequest
}
func (*word) Configure(int32, []byte) int32                    { return 0 }
func (*word) Forms(int32) int32                                { return 0 }
func (*word) Request(int32, []byte) int32                      { return 1 }
func (*word) Response(int32, int32, []byte) int32              { return 1 }
func (*word) Event(int32, abi.EventKind, []byte, []byte) int32 { return 1 }
func (*word) End(int32) int32                                  { return 1 }
func (*word) List(int32, []byte) int32                         { return 1 }
func (*word) Models(int32, int32, []byte) int32                { return 1 }
func (*word) Choose(int32, []byte) int32                       { return 1 }
func (w *word) FilterRequest(_ int32, in []byte) int32 {
	if w.tag != "" && bytes.Contains(in, []byte(`"key":"alice"`)) {
		w.host.Tag([]byte(w.tag))
	}
	return 0
}

func (w *word) FilterText(_ int32, _ abi.What, _ int32, flags abi.TextFlags, held int32, text []byte) int32 {
	if !utf8.Valid(text) {
		panic("not UTF-8")
	}
	if w.trap != "" && bytes.Contains(text, []byte(w.trap)) {
		panic("asked to")
	}
	if w.refuse != "" && bytes.Contains(text, []byte(w.refuse)) {
		w.host.Fail(abi.FailDenied, nil, nil, []byte("refused"), -1)
		return 0
	}
	at := 0
	for w.find != "" {
		i := bytes.Index(text[at:], []byte(w.find))
		if i < 0 {
			break
		}
		w.host.Replace(int32(at+i), int32(at+i+len(w.find)), w.spelled)
		at += i + len(w.find)
	}
	hold := 0
	for _, pattern := range [...]string{w.find, w.refuse, w.trap} {
		for n := max(0, len(pattern)-1); n > hold; n-- {
			if n <= len(text)-at && string(text[len(text)-n:]) == pattern[:n] {
				hold = n
			}
		}
	}
	w.host.Hold(int32(hold))
	return 0
}

// bound are filters, as a configuration would have them.
func bound(t testing.TB, words ...word) []*filter.Filter {
	t.Helper()
	h, err := plugin.New(plugin.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	var all []*filter.Filter
	for i, w := range words {
		g, err := h.LoadNative(fmt.Sprint("word-", i), func(host abi.Host) plugin.Guest {
			copied := w
			copied.host, copied.spelled = host, []byte(w.put)
			return &copied
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(g.Close)
		b, err := g.Plugin(fmt.Sprint("word-", i)).Bind(t.Context(), plugin.BindingConfig{Name: "word"})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, &filter.Filter{Binding: b, Config: &config.Filter{
			Plugin: "word", Models: []config.Glob{"*"}, Keys: []config.Glob{"*"}, APIs: []string{"chat", "messages", "responses", "completions", "rerank", "embeddings"},
			Request: true, Response: true, Tags: []string{"a", "b"},
		}})
	}
	return all
}

// apis are the client APIs with a conversation.
func apis() map[string]*clientapi.API {
	sealer := thinking.NewSealer([]byte("0123456789abcdef0123456789abcdef"))
	return map[string]*clientapi.API{
		"chat":      openai.API(),
		"messages":  messages.API(sealer),
		"responses": responses.API(responses.Options{Sealer: sealer, Failure: native.Failure}),
	}
}

// gate is a response on its way through filters.
type gate struct {
	t        testing.TB
	chain    filter.Chain
	renderer clientapi.Renderer
	filtered *filter.Renderer
	w        *response.Writer
	sent     []byte
	err      error
}

func newGate(t testing.TB, api *clientapi.API, filters []*filter.Filter, stream bool) *gate {
	g := &gate{t: t, renderer: api.NewRenderer()}
	g.filtered = filter.NewRenderer(g.renderer)
	g.w = response.NewWriter(g.filtered)
	g.begin(api, filters, stream)
	return g
}

func (g *gate) begin(api *clientapi.API, filters []*filter.Filter, stream bool) {
	g.sent, g.err = g.sent[:0], nil
	g.w.Reset(response.Options{Stream: stream, ID: "id", Model: "m", Created: 1})
	g.chain.Reset()
	g.chain.Begin(filters, api.Name, "m", "", "alice")
	g.filtered.Filter(&g.chain)
	g.renderer.Respond(nil)
}

// read applies what one read from the provider has brought.
func (g *gate) read(events func(b *response.Batch)) {
	g.t.Helper()
	var b response.Batch
	events(&b)
	if err := g.w.Apply(&b); err != nil {
		g.t.Fatal(err)
	}
}

// run takes what has come through the filters, as between two reads.
func (g *gate) run() {
	if g.err == nil {
		g.err = g.filtered.Run(g.t.Context())
	}
	g.sent = append(g.sent, g.w.Output()...)
	g.w.Consume()
}

// failer is a *testing.T, or rapid's.
type failer interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// text is the text of a response of any of the APIs: of a stream the pieces together.
func text(t failer, api string, stream bool, body []byte) (content, arguments string) {
	t.Helper()
	if stream {
		for line := range strings.Lines(string(body)) {
			data, ok := strings.CutPrefix(line, "data: ")
			if !ok || strings.TrimSpace(data) == "[DONE]" {
				continue
			}
			c, a := frameText(t, api, []byte(data))
			content, arguments = content+c, arguments+a
		}
		return content, arguments
	}
	var v struct {
		Choices []struct {
			Message struct {
				Content   string
				ToolCalls []struct{ Function struct{ Arguments string } } `json:"tool_calls"`
			}
		}
		Content []struct {
			Text  string
			Input json.RawMessage
		}
		Output []struct {
			Content   []struct{ Text string }
			Arguments string
		}
	}
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	for _, c := range v.Choices {
		content += c.Message.Content
		for _, call := range c.Message.ToolCalls {
			arguments += call.Function.Arguments
		}
	}
	for _, c := range v.Content {
		content, arguments = content+c.Text, arguments+string(c.Input)
	}
	for _, o := range v.Output {
		arguments += o.Arguments
		for _, c := range o.Content {
			content += c.Text
		}
	}
	return content, arguments
}

func frameText(t failer, api string, data []byte) (content, arguments string) {
	t.Helper()
	var v struct {
		Type    string
		Choices []struct {
			Delta struct {
				Content   string
				ToolCalls []struct{ Function struct{ Arguments string } } `json:"tool_calls"`
			}
		}
		Delta json.RawMessage
	}
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	for _, c := range v.Choices {
		content += c.Delta.Content
		for _, call := range c.Delta.ToolCalls {
			arguments += call.Function.Arguments
		}
	}
	switch {
	case api == "messages" && v.Type == "content_block_delta":
		var d struct {
			Text        string
			PartialJSON string `json:"partial_json"`
		}
		if err := json.Unmarshal(v.Delta, &d); err != nil {
			t.Fatal(err)
		}
		return d.Text, d.PartialJSON
	case v.Type == "response.output_text.delta":
		json.Unmarshal(v.Delta, &content)
	case v.Type == "response.function_call_arguments.delta":
		json.Unmarshal(v.Delta, &arguments)
	}
	return content, arguments
}

// cut cuts a text anywhere, also within a character.
func cut(t *rapid.T, s string) (pieces []string) {
	for len(s) > 0 {
		n := rapid.IntRange(1, min(len(s), 9)).Draw(t, "piece")
		pieces, s = append(pieces, s[:n]), s[n:]
	}
	return pieces
}

var words = rapid.SampledFrom([]string{"se", "secret", "cret", "s", "sec", " ", "a", "\u00e4", "\u20ac", "\U0001f600", "\"", "\\", "\n", "token", "to", "***", "ken"})

// TestCutAnywhere is the promise of filters: however a text is cut, the client gets the same.
func TestCutAnywhere(t *testing.T) {
	filters := bound(t, word{find: "secret", put: "***"}, word{find: "***token", put: "\u20ac"})
	for name, api := range apis() {
		for _, stream := range []bool{true, false} {
			g := newGate(t, api, filters, stream)
			rapid.Check(t, func(rt *rapid.T) {
				whole := strings.Join(rapid.SliceOfN(words, 1, 20).Draw(rt, "words"), "")
				value := strings.Join(rapid.SliceOfN(words, 0, 5).Draw(rt, "argument"), "")
				args, _ := json.Marshal(map[string]string{"secret": value})
				edit := func(s string) string {
					return strings.ReplaceAll(strings.ReplaceAll(s, "secret", "***"), "***token", "\u20ac")
				}
				wantArgs := map[string]string{"secret": edit(value)}
				g.begin(api, filters, stream)
				longest := 0
				for _, p := range cut(rt, whole) {
					g.read(func(b *response.Batch) { b.Text(0, abi.EncodingUTF8, []byte(p)) })
					if rapid.Bool().Draw(rt, "read") && stream {
						g.run()
						got, _ := text(rt, name, true, g.sent)
						if strings.Contains(got, "secret") {
							rt.Fatalf("the client has %q", got)
						}
					}
					longest += len(p)
				}
				g.read(func(b *response.Batch) { b.ToolCall(0, 1, []byte("call_1"), []byte("f")) })
				for _, p := range cut(rt, string(args)) {
					g.read(func(b *response.Batch) { b.ToolArguments(0, 1, abi.EncodingUTF8, []byte(p)) })
					if rapid.Bool().Draw(rt, "read") && stream {
						g.run()
					}
				}
				g.read(func(b *response.Batch) {
					b.ToolEnd(0, 1)
					b.Finish(0, abi.FinishToolCalls, nil)
					b.Done(abi.DoneNow)
				})
				g.run()
				if g.err != nil || !g.w.Complete() {
					rt.Fatal(g.err)
				}
				body := g.sent
				if !stream {
					body = g.w.AppendResponse(nil)
				}
				content, arguments := text(rt, name, stream, body)
				var gotArgs map[string]string
				if err := json.Unmarshal([]byte(arguments), &gotArgs); err != nil {
					rt.Fatalf("%v in %s", err, arguments)
				}
				if content != edit(whole) || gotArgs["secret"] != wantArgs["secret"] {
					rt.Fatalf("%s: %q and %q, want %q and %q", name, content, gotArgs, edit(whole), wantArgs)
				}
			})
		}
	}
}

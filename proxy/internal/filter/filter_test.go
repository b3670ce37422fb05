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

// wordFilter is a filter that replaces one word, rejects texts with another and traps on a third.
type wordFilter struct {
	host              abi.Host
	find, put         string
	refuse, trap, tag string
	replacement       []byte // put
}

func (*wordFilter) Has(export string) bool {
	return export == abi.ExportConfigure || export == abi.ExportFilterText || export == abi.ExportFilterRequest
}
func (*wordFilter) Configure(int32, []byte) int32                    { return 0 }
func (*wordFilter) Forms(int32) int32                                { return 0 }
func (*wordFilter) Request(int32, []byte) int32                      { return 1 }
func (*wordFilter) Response(int32, int32, []byte) int32              { return 1 }
func (*wordFilter) Event(int32, abi.EventKind, []byte, []byte) int32 { return 1 }
func (*wordFilter) End(int32) int32                                  { return 1 }
func (*wordFilter) List(int32, []byte) int32                         { return 1 }
func (*wordFilter) Models(int32, int32, []byte) int32                { return 1 }
func (*wordFilter) Reads(int32) int32                                { return 0 }
func (*wordFilter) SummaryParts(int32) int32                         { return 0 }
func (*wordFilter) FilterParts(int32) int32                          { return int32(abi.FilterRequest) }
func (*wordFilter) Choose(int32, []byte) int32                       { return 1 }
func (w *wordFilter) FilterRequest(_ int32, in []byte) int32 {
	if w.tag != "" && bytes.Contains(in, []byte(`"key":"alice"`)) {
		w.host.Tag([]byte(w.tag))
	}
	return 0
}

func (w *wordFilter) FilterText(_ int32, _ abi.What, _ int32, flags abi.TextFlags, held int32, text []byte) int32 {
	if !utf8.Valid(text) {
		panic("not UTF-8")
	}
	if w.trap != "" && bytes.Contains(text, []byte(w.trap)) {
		panic("trap word")
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
		w.host.Replace(int32(at+i), int32(at+i+len(w.find)), w.replacement)
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

// bindFilters returns filters for all models and keys, with the words as plugins.
func bindFilters(t testing.TB, words ...wordFilter) []*filter.Filter {
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
			copied.host, copied.replacement = host, []byte(w.put)
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

// apis returns the client APIs with conversations.
func apis() map[string]*clientapi.API {
	sealer := thinking.NewSealer([]byte("0123456789abcdef0123456789abcdef"))
	return map[string]*clientapi.API{
		"chat":      openai.API(),
		"messages":  messages.API(sealer),
		"responses": responses.API(responses.Options{Sealer: sealer, Failure: native.Failure}),
	}
}

// pipeline writes a response through filters.
type pipeline struct {
	t        testing.TB
	chain    filter.Chain
	renderer clientapi.Renderer
	filtered *filter.Renderer
	w        *response.Writer
	sent     []byte // what the client received
	err      error
}

func newPipeline(t testing.TB, api *clientapi.API, filters []*filter.Filter, stream bool) *pipeline {
	pl := &pipeline{t: t, renderer: api.NewRenderer()}
	pl.filtered = filter.NewRenderer(pl.renderer)
	pl.w = response.NewWriter(pl.filtered)
	pl.begin(api, filters, stream)
	return pl
}

// begin starts another response.
func (pl *pipeline) begin(api *clientapi.API, filters []*filter.Filter, stream bool) {
	pl.sent, pl.err = pl.sent[:0], nil
	pl.w.Reset(response.Options{Stream: stream, ID: "id", Model: "m", Created: 1})
	pl.chain.Reset()
	pl.chain.Begin(filters, api.Name, "m", "", "alice")
	pl.filtered.Filter(&pl.chain)
	pl.renderer.Respond(nil)
}

// read applies the events of one read from the provider.
func (pl *pipeline) read(events func(b *response.Batch)) {
	pl.t.Helper()
	var b response.Batch
	events(&b)
	if err := pl.w.Apply(&b); err != nil {
		pl.t.Fatal(err)
	}
}

// run runs the filters, as the gateway does between two reads.
func (pl *pipeline) run() {
	if pl.err == nil {
		pl.err = pl.filtered.Run(pl.t.Context())
	}
	pl.sent = append(pl.sent, pl.w.Output()...)
	pl.w.Consume()
}

// failer is implemented by *testing.T and *rapid.T.
type failer interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// text returns the text and the tool arguments of a response in any of the APIs. The pieces of a stream are joined.
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

// frameText returns the pieces of text and tool arguments in a frame.
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

// cutAnywhere cuts a text into pieces, possibly within characters.
func cutAnywhere(t *rapid.T, s string) (pieces []string) {
	for len(s) > 0 {
		n := rapid.IntRange(1, min(len(s), 9)).Draw(t, "piece")
		pieces, s = append(pieces, s[:n]), s[n:]
	}
	return pieces
}

var words = rapid.SampledFrom([]string{"se", "secret", "cret", "s", "sec", " ", "a", "\u00e4", "\u20ac", "\U0001f600", "\"", "\\", "\n", "token", "to", "***", "ken"})

// TestFilteredTextDoesNotDependOnCuts checks that the client receives the same text however the provider cuts it.
func TestFilteredTextDoesNotDependOnCuts(t *testing.T) {
	filters := bindFilters(t, wordFilter{find: "secret", put: "***"}, wordFilter{find: "***token", put: "\u20ac"})
	for name, api := range apis() {
		for _, stream := range []bool{true, false} {
			pl := newPipeline(t, api, filters, stream)
			rapid.Check(t, func(rt *rapid.T) {
				whole := strings.Join(rapid.SliceOfN(words, 1, 20).Draw(rt, "words"), "")
				value := strings.Join(rapid.SliceOfN(words, 0, 5).Draw(rt, "argument"), "")
				args, _ := json.Marshal(map[string]string{"secret": value})
				edit := func(s string) string {
					return strings.ReplaceAll(strings.ReplaceAll(s, "secret", "***"), "***token", "\u20ac")
				}
				wantArgs := map[string]string{"secret": edit(value)}
				pl.begin(api, filters, stream)
				longest := 0
				for _, p := range cutAnywhere(rt, whole) {
					pl.read(func(b *response.Batch) { b.Text(0, abi.EncodingUTF8, []byte(p)) })
					if rapid.Bool().Draw(rt, "read") && stream {
						pl.run()
						got, _ := text(rt, name, true, pl.sent)
						if strings.Contains(got, "secret") {
							rt.Fatalf("the client received %q", got)
						}
					}
					longest += len(p)
				}
				pl.read(func(b *response.Batch) { b.ToolCall(0, 1, []byte("call_1"), []byte("f")) })
				for _, p := range cutAnywhere(rt, string(args)) {
					pl.read(func(b *response.Batch) { b.ToolArguments(0, 1, abi.EncodingUTF8, []byte(p)) })
					if rapid.Bool().Draw(rt, "read") && stream {
						pl.run()
					}
				}
				pl.read(func(b *response.Batch) {
					b.ToolEnd(0, 1)
					b.Finish(0, abi.FinishToolCalls, nil)
					b.Done(abi.DoneNow)
				})
				pl.run()
				if pl.err != nil || !pl.w.Complete() {
					rt.Fatal(pl.err)
				}
				body := pl.sent
				if !stream {
					body = pl.w.AppendResponse(nil)
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

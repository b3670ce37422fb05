package filter_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/gemini"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/proxy/internal/thinking"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// FuzzPassedTexts passes on arbitrary responses in each API through a filter that masks a phrase. No text that
// PassedTexts of the API finds in the client's response may contain the phrase.
func FuzzPassedTexts(f *testing.F) {
	all := nativeAPIs()
	all["gemini"] = gemini.API(thinking.NewSealer([]byte("0123456789abcdef0123456789abcdef")))
	names := []string{"messages", "responses", "gemini", "completions"}
	filters := bindFilters(f, wordFilter{find: "secret", put: "***"})
	for _, filter := range filters {
		filter.Config.APIs = append(filter.Config.APIs, "gemini")
	}
	for i, name := range names {
		if name == "gemini" {
			f.Add(byte(i), true, `{"candidates":[{"content":{"parts":[{"text":"a se"}]}}]}`+"\n"+
				`{"candidates":[{"content":{"parts":[{"text":"cret"},{"functionCall":{"name":"f","args":{"a":"secret"}}}]},"finishReason":"STOP"}]}`)
			f.Add(byte(i), false, `{"candidates":[{"content":{"parts":[{"text":"a secret","thought":true,"thoughtSignature":"c2ln"}]},"finishReason":"STOP"}]}`)
			continue
		}
		var lines []string
		for _, e := range nativeFrames(name, []string{"a se", "cret"}, []string{`{"a":"sec`, `ret"}`}) {
			lines = append(lines, e.data)
		}
		f.Add(byte(i), true, strings.Join(lines, "\n"))
		f.Add(byte(i), false, nativeBody(name, "a secret", `{"a":"secret"}`))
	}
	f.Fuzz(func(t *testing.T, which byte, stream bool, sent string) {
		name := names[int(which)%len(names)]
		api := all[name]
		pl := newPipeline(t, api, filters, stream)
		pl.renderer.Pass()
		pl.filtered.Pass(api.PassedTexts)
		reader := api.NewReader()
		reader.Reset(true)
		var b response.Batch
		if !stream {
			if reader.ReadResponse([]byte(sent), &b) != nil || pl.w.Apply(&b) != nil {
				return
			}
			if pl.run(); pl.err == nil && pl.w.Complete() {
				checkWalk(t, api, false, [][]byte{pl.w.AppendResponse(nil)})
			}
			return
		}
		for line := range strings.SplitSeq(sent, "\n") {
			var head struct{ Type string }
			_ = json.Unmarshal([]byte(line), &head)
			b.Reset()
			if reader.ReadEvent([]byte(head.Type), []byte(line), &b) != nil || pl.w.Apply(&b) != nil {
				break
			}
			pl.run()
		}
		if pl.err == nil && !pl.w.Complete() {
			_ = pl.w.End()
			pl.run()
		}
		var frames [][]byte
		for line := range bytes.Lines(pl.sent) {
			if data, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data: ")); ok {
				frames = append(frames, data)
			}
		}
		checkWalk(t, api, true, frames)
	})
}

// checkWalk looks for the phrase in the texts of frames, with the pieces of a text joined.
func checkWalk(t *testing.T, api *clientapi.API, stream bool, frames [][]byte) {
	type key struct {
		what              abi.What
		choice, key, part int32
		place             clientapi.PassedPlace
	}
	pieces := map[key]string{}
	check := func(text string, frame []byte) {
		if strings.Contains(text, "secret") {
			t.Fatalf("%s: the client received %q in %s, the last frame of\n%s", api.Name, text, frame, bytes.Join(frames, []byte("\n")))
		}
	}
	var doc jsondoc.Doc
	for _, frame := range frames {
		if doc.Parse(frame, jsondoc.Limits{Depth: jsondoc.DefaultDepth, Loose: true, FlatNumbers: true}) != nil {
			continue
		}
		name := doc.Root().Get("type").Inside()
		api.PassedTexts(name, doc.Root(), stream, func(p clientapi.PassedText) {
			var text string
			if p.Value.Kind() == jsondoc.String {
				text = string(p.Value.AppendText(nil))
			}
			k := key{p.What, p.Choice, p.Key, p.Part, p.Place}
			switch p.Place {
			case clientapi.PassedPiece:
				pieces[k] += text
				check(pieces[k], frame)
			case clientapi.PassedLast:
				k.place = clientapi.PassedPiece
				check(pieces[k]+text, frame)
				clear(pieces)
			case clientapi.PassedEnd, clientapi.PassedEndAll:
				clear(pieces)
			case clientapi.PassedWhole:
				check(text, frame)
			case clientapi.PassedJSON, clientapi.PassedArguments:
				if p.Place == clientapi.PassedArguments {
					pieces[k] += text
					text = pieces[k]
				}
				var v any
				if json.Unmarshal([]byte(text), &v) == nil {
					eachValue(v, func(s string) { check(s, frame) })
				}
			}
		})
	}
}

// eachValue calls f with the strings of a JSON value, except member names.
func eachValue(v any, f func(string)) {
	switch v := v.(type) {
	case string:
		f(v)
	case []any:
		for _, e := range v {
			eachValue(e, f)
		}
	case map[string]any:
		for _, e := range v {
			eachValue(e, f)
		}
	}
}

// TestHeldTextIsBounded checks, for translated streams and for those that are passed on, that the client receives a
// text at once except what the filters may hold of it: at most one byte less than the word that each of them looks for.
func TestHeldTextIsBounded(t *testing.T) {
	filters := bindFilters(t, wordFilter{find: "secret", put: "***"}, wordFilter{find: "***token", put: "\u20ac"})
	const maxHeld = len("secre") + len("***toke")
	edit := func(s string) string {
		return strings.ReplaceAll(strings.ReplaceAll(s, "secret", "***"), "***token", "\u20ac")
	}
	check := func(t *rapid.T, api, provided string, sent []byte) {
		got, _ := text(t, api, true, sent)
		if want := edit(provided); !strings.HasPrefix(want, got) || len(want)-len(got) > maxHeld {
			t.Fatalf("%s: the client received %q of %q", api, got, want)
		}
	}
	pieces := func(t *rapid.T) []string {
		return cutBetweenRunes(t, strings.Join(rapid.SliceOfN(words, 1, 20).Draw(t, "words"), ""))
	}
	for name, api := range apis() {
		pl := newPipeline(t, api, filters, true)
		rapid.Check(t, func(rt *rapid.T) {
			pl.begin(api, filters, true)
			provided := ""
			for _, p := range pieces(rt) {
				pl.read(func(b *response.Batch) { b.Text(0, abi.EncodingUTF8, []byte(p)) })
				pl.run()
				provided += p
				check(rt, name, provided, pl.sent)
			}
		})
	}
	for _, name := range []string{"messages", "responses"} {
		api := nativeAPIs()[name]
		pl := newPipeline(t, api, filters, true)
		rapid.Check(t, func(rt *rapid.T) {
			texts := pieces(rt)
			pl.begin(api, filters, true)
			reader := pl.pass(api)
			provided := ""
			for _, f := range nativeFrames(name, texts, []string{"{}"}) {
				var b response.Batch
				if err := reader.ReadEvent([]byte(f.name), []byte(f.data), &b); err != nil {
					rt.Fatal(err)
				}
				if err := pl.w.Apply(&b); err != nil {
					rt.Fatal(err)
				}
				pl.run()
				if len(texts) > 0 && isPieceOf(f, texts[0]) {
					provided, texts = provided+texts[0], texts[1:]
					check(rt, name, provided, pl.sent)
				}
			}
			if len(texts) > 0 {
				rt.Fatalf("no event with %q", texts[0])
			}
		})
	}
}

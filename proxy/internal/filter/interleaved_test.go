package filter_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/filter"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
)

// item is an output item of a Responses stream: a message or a call.
type item struct {
	call   bool
	bare   bool // the provider sends no event that ends the item
	pieces []string
}

func (i *item) whole() string { return strings.Join(i.pieces, "") }

// frames returns the events of the item at an index of the output, without sequence numbers.
func (i *item) frames(index int) (frames []frame) {
	add := func(kind, format string, a ...any) {
		frames = append(frames, frame{kind, fmt.Sprintf(`"output_index":%d,`, index) + fmt.Sprintf(format, a...)})
	}
	if i.call {
		add("response.output_item.added", `"item":{"id":"i%d","type":"function_call","call_id":"c%d","name":"f","arguments":""}`, index, index)
		for _, p := range i.pieces {
			add("response.function_call_arguments.delta", `"item_id":"i%d","delta":%s`, index, quoted(p))
		}
		if i.bare {
			return frames
		}
		add("response.function_call_arguments.done", `"item_id":"i%d","arguments":%s`, index, quoted(i.whole()))
	} else {
		add("response.output_item.added", `"item":{"id":"i%d","type":"message","role":"assistant","content":[]}`, index)
		add("response.content_part.added", `"item_id":"i%d","content_index":0,"part":{"type":"output_text","text":"","annotations":[]}`, index)
		for _, p := range i.pieces {
			add("response.output_text.delta", `"item_id":"i%d","content_index":0,"delta":%s`, index, quoted(p))
		}
		if i.bare {
			return frames
		}
		add("response.output_text.done", `"item_id":"i%d","content_index":0,"text":%s`, index, quoted(i.whole()))
	}
	add("response.output_item.done", `"item":%s`, i.json(index))
	return frames
}

// json returns the complete item.
func (i *item) json(index int) string {
	if i.call {
		return fmt.Sprintf(`{"id":"i%d","type":"function_call","call_id":"c%d","name":"f","status":"completed","arguments":%s}`, index, index, quoted(i.whole()))
	}
	return fmt.Sprintf(`{"id":"i%d","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":%s,"annotations":[]}]}`, index, quoted(i.whole()))
}

// TestInterleavedItems checks Responses streams with interleaved items, which parallel calls may produce: each item
// keeps its text and the order of its events, and events are numbered in the order in which the client receives them.
func TestInterleavedItems(t *testing.T) {
	api := nativeAPIs()["responses"]
	filters := bindFilters(t, wordFilter{find: "secret", put: "***"})
	edit := func(s string) string { return strings.ReplaceAll(s, "secret", "***") }
	pl := newPipeline(t, api, filters, true)
	rapid.Check(t, func(rt *rapid.T) {
		var items []*item
		var waiting [][]frame
		for n := range rapid.IntRange(2, 4).Draw(rt, "items") {
			i := &item{call: rapid.Bool().Draw(rt, "call"), bare: rapid.IntRange(0, 4).Draw(rt, "bare") == 0}
			text := strings.Join(rapid.SliceOfN(words, 1, 6).Draw(rt, "words"), "")
			if i.call {
				text = `{"secret":` + quoted(text) + `}`
			}
			i.pieces = cutBetweenRunes(rt, text)
			items, waiting = append(items, i), append(waiting, i.frames(n))
		}
		var frames []frame
		for len(waiting) > 0 {
			n := rapid.IntRange(0, len(waiting)-1).Draw(rt, "next")
			frames = append(frames, waiting[n][0])
			if waiting[n] = waiting[n][1:]; len(waiting[n]) == 0 {
				waiting = append(waiting[:n], waiting[n+1:]...)
			}
		}
		var output []string
		for n, i := range items {
			output = append(output, i.json(n))
		}
		const head = `"response":{"id":"resp_1","object":"response","model":"m",`
		frames = append([]frame{{"response.created", head + `"status":"in_progress","output":[]}`}}, frames...)
		frames = append(frames, frame{"response.completed", head + `"status":"completed","output":[` + strings.Join(output, ",") + `],"usage":{"input_tokens":1,"output_tokens":2,"total_tokens":3}}`})

		pl.playPassed(rt, api, filters, frames, func() bool { return rapid.Bool().Draw(rt, "read") })
		checkInterleaved(rt, string(pl.sent), items, edit)
	})
}

// TestUnfinishedItemsAreNumbered ends a stream whose provider has ended neither its text, part of which is held, nor
// its tool call.
func TestUnfinishedItemsAreNumbered(t *testing.T) {
	api := nativeAPIs()["responses"]
	filters := bindFilters(t, wordFilter{find: "secret", put: "***"})
	items := []*item{{bare: true, pieces: []string{"a se"}}, {call: true, bare: true, pieces: []string{`{"secret":""}`}}}
	const head = `"response":{"id":"resp_1","object":"response","model":"m",`
	frames := []frame{{"response.created", head + `"status":"in_progress","output":[]}`}}
	var output []string
	for n, i := range items {
		frames, output = append(frames, i.frames(n)...), append(output, i.json(n))
	}
	frames = append(frames, frame{"response.completed", head + `"status":"completed","output":[` + strings.Join(output, ",") + `],"usage":{"input_tokens":1,"output_tokens":2,"total_tokens":3}}`})
	pl := newPipeline(t, api, filters, true)
	pl.playPassed(t, api, filters, frames, func() bool { return true })
	checkInterleaved(t, string(pl.sent), items, func(s string) string { return s })
}

// playPassed passes on events with sequence numbers. After each of them, the filters run if read returns true.
func (pl *pipeline) playPassed(t failer, api *clientapi.API, filters []*filter.Filter, frames []frame, read func() bool) {
	t.Helper()
	pl.begin(api, filters, true)
	reader := pl.pass(api)
	for n, f := range frames {
		var b response.Batch
		if err := reader.ReadEvent([]byte(f.name), fmt.Appendf(nil, `{"type":%q,"sequence_number":%d,%s}`, f.name, n, f.data), &b); err != nil {
			t.Fatal(err)
		}
		if err := pl.w.Apply(&b); err != nil {
			t.Fatal(err)
		}
		if read() {
			pl.run()
		}
	}
	pl.run()
	if pl.err != nil || !pl.w.Complete() {
		t.Fatal(pl.err)
	}
}

// checkInterleaved checks the sequence numbers of a stream, and for each item its joined text and every repetition of
// it.
func checkInterleaved(t failer, stream string, items []*item, edit func(string) string) {
	got, ended := make([]string, len(items)), make([]bool, len(items))
	number := 0
	for line := range strings.Lines(stream) {
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		if !ok {
			continue
		}
		var v struct {
			Type            string
			Sequence        int `json:"sequence_number"`
			Index           int `json:"output_index"`
			Delta           string
			Text, Arguments *string
		}
		if err := json.Unmarshal([]byte(data), &v); err != nil {
			t.Fatal(err)
		}
		if v.Sequence != number {
			t.Fatalf("event %d has sequence number %d in\n%s", number, v.Sequence, stream)
		}
		number++
		i := items[v.Index]
		for _, s := range []*string{v.Text, v.Arguments} {
			if s == nil {
				continue
			}
			if *s != got[v.Index] && !(i.call && sameJSON(*s, got[v.Index])) {
				t.Fatalf("%s does not repeat the pieces %q", data, got[v.Index])
			}
			ended[v.Index] = true
		}
		if got[v.Index] += v.Delta; v.Delta != "" && ended[v.Index] {
			t.Fatalf("%s after the end of its item", data)
		}
	}
	for n, i := range items {
		if want := edit(i.whole()); !i.call && got[n] != want {
			t.Fatalf("the text of item %d is %q, want %q", n, got[n], want)
		}
		if i.call {
			var a, b map[string]string
			json.Unmarshal([]byte(got[n]), &a)
			json.Unmarshal([]byte(i.whole()), &b)
			if a["secret"] != edit(b["secret"]) || len(a) != 1 {
				t.Fatalf("the arguments of item %d are %s, want %q", n, got[n], edit(b["secret"]))
			}
		}
	}
}

func sameJSON(a, b string) bool {
	var x, y any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && fmt.Sprint(x) == fmt.Sprint(y)
}

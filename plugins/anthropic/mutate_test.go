package anthropic

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
	sdkjson "github.com/sluice-gateway/sluice/sdk/json"
)

// sortedVectors are the vectors in the order of their names, so that a number means the same one every time.
func sortedVectors(tb testing.TB, ok func(*plugintest.Vector) bool) []*plugintest.Vector {
	tb.Helper()
	var all []*plugintest.Vector
	for _, v := range vectorsNamed(tb) {
		if ok(v) {
			all = append(all, v)
		}
	}
	slices.SortFunc(all, func(a, b *plugintest.Vector) int { return bytes.Compare([]byte(a.Name), []byte(b.Name)) })
	return all
}

// FuzzEventsOutOfOrder plays the events of streams in any order, drops some, repeats some and moves them to other
// blocks. Each step is four bytes: the stream, the first event, the number of events, and the change of the block's
// index.
func FuzzEventsOutOfOrder(f *testing.F) {
	streams := sortedVectors(f, func(v *plugintest.Vector) bool { return v.ContentType == "text/event-stream" })
	var events [][][]byte
	for i, v := range streams {
		events = append(events, bytes.Split(bytes.TrimSpace(v.Answer), []byte("\n\n")))
		f.Add([]byte{byte(i), 0, 255, 0}, i%2 == 0)
	}
	f.Add([]byte{1, 3, 2, 0, 9, 0, 3, 1, 7, 1, 9, 2, 3, 0, 255, 0}, false)
	f.Add([]byte{9, 5, 9, 0, 4, 0, 8, 3, 11, 2, 3, 1, 12, 0, 255, 4}, true)
	b := suite.Bind(f, plugintest.Host(f), plugintest.Native)
	f.Fuzz(func(t *testing.T, script []byte, forced bool) {
		const most = 64
		var answer []byte
		for n := 0; len(script) >= 4 && n < most; script, n = script[4:], n+1 {
			stream := events[int(script[0])%len(events)]
			from := int(script[1]) % len(stream)
			for _, event := range stream[from:min(from+int(script[2]), len(stream))] {
				if shift := script[3]; shift > 0 {
					event = bytes.Replace(event, []byte(`"index":`), fmt.Appendf(nil, `"index":%d`, shift%3), 1)
				}
				answer = append(append(answer, event...), '\n', '\n')
			}
		}
		v := plugintest.Vector{Target: "m", Request: []byte(fuzzedUses[0]), Answer: answer, Status: 200, ContentType: "text/event-stream"}
		if forced {
			v.Request = []byte(fuzzedUses[1])
		}
		if len(answer) > 0 {
			checkWhole(t, v.Run(b, false).Answer)
			checkStream(t, v.Run(b, true).Answer)
		}
	})
}

// FuzzConversation builds conversations from the messages of the vectors and adds members of other vectors. Each byte
// is a turn: a message by itself, or one with the results of its tool calls.
func FuzzConversation(f *testing.F) {
	type request map[string]json.RawMessage
	var turns [][]byte
	var others []request
	for _, v := range sortedVectors(f, func(*plugintest.Vector) bool { return true }) {
		var r request
		var messages []json.RawMessage
		if json.Unmarshal(v.Request, &r) != nil || json.Unmarshal(r["messages"], &messages) != nil {
			f.Fatalf("%s is no request", v.Name)
		}
		for _, m := range messages {
			if bytes.Contains(m, []byte(`"role":"tool"`)) {
				turns[len(turns)-1] = append(append(turns[len(turns)-1], ','), m...)
			} else if len(m) < 4096 {
				turns = append(turns, m)
			}
		}
		delete(r, "messages")
		delete(r, "model")
		others = append(others, r)
	}
	for i := range turns {
		f.Add([]byte{byte(i), byte(i / 2), byte(i / 3)}, i, 3*i, i%len(fuzzedOptions))
	}
	b := suite.Bind(f, plugintest.Host(f), plugintest.Native)
	f.Fuzz(func(t *testing.T, script []byte, one, two, options int) {
		if len(script) == 0 || len(script) > 32 || one < 0 || two < 0 || options < 0 {
			return
		}
		members := request{"model": []byte(`"m"`)}
		for _, i := range []int{one, two} {
			for name, value := range others[i%len(others)] {
				members[name] = value
			}
		}
		messages := []byte{'['}
		for i, c := range script {
			if i > 0 {
				messages = append(messages, ',')
			}
			messages = append(messages, turns[int(c)%len(turns)]...)
		}
		members["messages"] = append(messages, ']')
		body, err := json.Marshal(members)
		if err != nil {
			t.Fatal(err)
		}
		var parsed plugintest.Request
		if parsed.Parse(body, plugintest.Limits{}) != nil {
			return
		}
		v := plugintest.Vector{Target: "m", Request: body, Status: 200, Options: []byte(fuzzedOptions[options%len(fuzzedOptions)])}
		r := v.Run(b, false)
		if r.Request == "" {
			checkWhole(t, r.Answer)
			return
		}
		checkRequest(t, r.Request)
	})
}

// FuzzPlainDelta compares both ways to read an event: the fast path gives the same result as the general one.
func FuzzPlainDelta(f *testing.F) {
	for _, seed := range [][]byte{textEvent, toolEvent, thinkingEvent, spacedEvent} {
		f.Add(seed)
		f.Add(bytes.Replace(seed, []byte(`0`), []byte(`10`), 1))
		f.Add(bytes.Replace(seed, []byte(`0`), []byte(`01`), 1))
		f.Add(bytes.Replace(seed, []byte(`"}`), []byte(`","text":"x"}`), 1))
		f.Add(bytes.Replace(seed, []byte(`"}`), []byte(`\"}`), 1))
		f.Add(append(slices.Clone(seed), '}'))
		f.Add(seed[:len(seed)-1])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		kind, index, inside := readPlain(data)
		if kind == otherDelta {
			return
		}
		var (
			r  sdkjson.Reader
			ev event
		)
		r.Reset(data)
		ev.read(&r)
		if err := r.End(); err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		read := map[deltaKind]struct {
			name   string
			inside []byte
		}{
			textDelta: {"text_delta", ev.text}, inputDelta: {"input_json_delta", ev.partialJSON}, thinkingDelta: {"thinking_delta", ev.thinking},
		}[kind]
		if string(ev.kind) != "content_block_delta" || string(ev.deltaType) != read.name || ev.index != int64(index) || !bytes.Equal(read.inside, inside) {
			t.Errorf("%q is read as %d %d %q and as %+v", data, kind, index, inside, ev)
		}
	})
}

// TestRecordedDeltasTakeFastPath checks that events as the API writes them take the fast path; the general one is too
// slow for every event.
func TestRecordedDeltasTakeFastPath(t *testing.T) {
	for _, v := range sortedVectors(t, func(v *plugintest.Vector) bool { return bytes.HasPrefix([]byte(v.Name), []byte("recorded/stream")) }) {
		for line := range bytes.Lines(v.Answer) {
			data, ok := bytes.CutPrefix(bytes.TrimRight(line, "\r\n"), []byte("data: "))
			if !ok {
				continue
			}
			want := bytes.Contains(data, []byte(`"type":"text_delta"`)) || bytes.Contains(data, []byte(`"type":"input_json_delta"`)) ||
				bytes.Contains(data, []byte(`"type":"thinking_delta"`))
			if kind, _, _ := readPlain(data); (kind != otherDelta) != want {
				t.Errorf("%s: %q", v.Name, data)
			}
		}
	}
}

package responses_test

import (
	"encoding/json"
	"strings"
	"testing"
)

// FuzzReader reads arbitrary data of a provider, an event per line or a non-streaming response, and checks the
// properties that clients rely on.
func FuzzReader(f *testing.F) {
	for _, rec := range recordings(f) {
		if rec.body != nil {
			f.Add(rec.body, true)
			continue
		}
		events := rec.events
		if len(events) > 12 {
			events = append(append([]sseEvent(nil), events[:6]...), events[len(events)-6:]...)
		}
		var lines []string
		for _, ev := range events {
			lines = append(lines, ev.data)
		}
		f.Add([]byte(strings.Join(lines, "\n")), false)
	}
	f.Fuzz(func(t *testing.T, data []byte, whole bool) {
		if len(data) > 1<<16 {
			return
		}
		rec := recording{name: "fuzz", body: data}
		if !whole {
			rec.body = nil
			for line := range strings.SplitSeq(string(data), "\n") {
				rec.events = append(rec.events, sseEvent{data: line})
			}
		}
		checkReader(t, &rec)
	})
}

// checkReader reads a response for streaming and non-streaming clients, and passes it on.
func checkReader(t testing.TB, rec *recording) {
	t.Helper()
	h := newHarness(t, testOptions, wantsSeals+","+wantsSummary+`,"store":false`)
	stream := h.replay(rec, true, false)
	complete := h.w.Complete()
	events := parseEvents(string(stream))
	for i, ev := range events {
		var e struct {
			Type           string
			SequenceNumber int `json:"sequence_number"`
		}
		if err := json.Unmarshal([]byte(ev.data), &e); err != nil || e.Type != ev.name || e.SequenceNumber != i {
			t.Fatalf("event %d, %v: %s %s", i, err, ev.name, ev.data)
		}
	}
	if h.w.Started() && (events[len(events)-1].name == "response.failed") == complete {
		t.Fatalf("complete %v, but the stream ends with %s", complete, events[len(events)-1].name)
	}
	body := h.replay(rec, false, false)
	if h.w.Complete() != complete {
		t.Fatalf("streamed: complete %v, non-streaming: %v, %v", complete, h.w.Complete(), h.w.Failed())
	}
	if complete && !json.Valid(body) {
		t.Fatalf("the non-streaming response is not JSON: %s", body)
	}
	passed := h.replay(rec, rec.body == nil, true)
	if h.w.Complete() != complete {
		t.Fatalf("rendered: complete %v, passed on: %v, %v", complete, h.w.Complete(), h.w.Failed())
	}
	if !complete && strings.Contains(string(passed), "event: response.completed\n") {
		t.Fatal("a failed response ends like a complete one")
	}
}

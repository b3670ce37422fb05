package responses_test

import (
	"encoding/json"
	"strings"
	"testing"
)

// FuzzReader reads what a provider might send, a line for each event, and checks what clients rely on, whatever it is.
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
		checkBoth(t, &rec)
	})
}

// checkBoth reads a response for both kinds of clients, and passes it on.
func checkBoth(t testing.TB, rec *recording) {
	t.Helper()
	g := newGateway(t, testOptions, wantsSeals+","+wantsSummary+`,"store":false`)
	stream := g.replay(rec, true, false)
	complete := g.w.Complete()
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
	if g.w.Started() && (events[len(events)-1].name == "response.failed") == complete {
		t.Fatalf("complete %v, and the stream ends with %s", complete, events[len(events)-1].name)
	}
	body := g.replay(rec, false, false)
	if g.w.Complete() != complete {
		t.Fatalf("streamed: complete %v, collected: %v, %v", complete, g.w.Complete(), g.w.Failed())
	}
	if complete && !json.Valid(body) {
		t.Fatalf("the whole response is %s", body)
	}
	passed := g.replay(rec, rec.body == nil, true)
	if g.w.Complete() != complete {
		t.Fatalf("rendered: complete %v, passed on: %v, %v", complete, g.w.Complete(), g.w.Failed())
	}
	if !complete && strings.Contains(string(passed), "event: response.completed\n") {
		t.Fatal("a failed response ends as if it were complete")
	}
}

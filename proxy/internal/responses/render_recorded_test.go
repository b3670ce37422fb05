package responses_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	sdk "github.com/openai/openai-go/v3/responses"
)

// A client reads the same content from a rendered response as from the provider's, streaming and non-streaming.
//
// covers: P5.1 P5.9 P5.10 P5.11 P5.12 P5.15 P5.18 P5.19 P6.11 P7.19
func TestRecordedResponsesKeepTheirContent(t *testing.T) {
	if testing.Short() {
		t.Skip("the SDK is slow: it reads a hundred responses")
	}
	h := newHarness(t, testOptions, `"include":["reasoning.encrypted_content"],"reasoning":{"summary":"auto"},"store":false`)
	completed := 0
	for _, rec := range recordings(t) {
		if rec.status != 200 || rec.body != nil && !bytes.Contains(rec.body, []byte(`"object":"response"`)) && !bytes.Contains(rec.body, []byte(`"object": "response"`)) {
			continue
		}
		t.Run(rec.name, func(t *testing.T) {
			h.t = t
			stream := h.replay(&rec, true, false)
			failed := h.w.Failed()
			if failed != nil {
				if len(stream) > 0 && readStream(t, stream).Status != "failed" {
					t.Errorf("failed with %v, but the client's response has not failed", failed)
				}
				return
			}
			completed++
			streamed := readStream(t, stream)
			whole := readWhole(t, h.replay(&rec, false, false))
			if a, b := summarize(streamed), summarize(whole); !reflect.DeepEqual(a, b) {
				t.Errorf("streamed %+v\nwhole    %+v", a, b)
			}
			// Compare with the provider's response as the SDK reads it.
			own := providerResponse(t, &rec)
			want, got := summarize(own), summarize(whole)
			want.ID, got.ID = "", ""
			want.Sealed, got.Sealed = nil, nil
			if want.Model == "" {
				got.Model = ""
			}
			want.Texts, got.Texts = joinTexts(want.Texts), joinTexts(got.Texts)
			want.Reasoning, got.Reasoning = joinTexts(want.Reasoning), joinTexts(got.Reasoning)
			for i, call := range want.Calls { // a call of an undeclared custom tool is rendered as a function call
				words := strings.SplitN(strings.Replace(call, " custom ", " ", 1), " ", 3)
				want.Calls[i] = words[0] + "  " + words[2]
			}
			if rec.name == "stream-background-t1" || want.Status == "queued" || want.Status == "in_progress" {
				want.Status, got.Status, want.Usage, got.Usage = "", "", "", ""
			}
			if !reflect.DeepEqual(want, got) {
				t.Errorf("provider %+v\ngateway  %+v", want, got)
			}
		})
	}
	if completed < 80 {
		t.Errorf("only %d responses were complete", completed)
	}
}

func joinTexts(texts []string) []string {
	if len(texts) == 0 {
		return nil
	}
	return []string{strings.ReplaceAll(strings.Join(texts, ""), "\n\n", "")}
}

// providerResponse returns a provider's response as the SDK reads it. The output of a stream consists of its completed
// items.
func providerResponse(t *testing.T, rec *recording) *sdk.Response {
	t.Helper()
	if rec.body != nil {
		var r sdk.Response
		if err := json.Unmarshal(rec.body, &r); err != nil {
			t.Fatal(err)
		}
		return &r
	}
	var last map[string]json.RawMessage
	var items []json.RawMessage
	for _, ev := range rec.events {
		var e struct {
			Type     string
			Response map[string]json.RawMessage
			Item     json.RawMessage
		}
		_ = json.Unmarshal([]byte(ev.data), &e)
		if e.Response != nil {
			last = e.Response
		}
		if e.Type == "response.output_item.done" {
			items = append(items, e.Item)
		}
	}
	if len(last["output"]) <= len("[]") {
		last["output"], _ = json.Marshal(items)
	}
	data, err := json.Marshal(last)
	if err != nil {
		t.Fatal(err)
	}
	var r sdk.Response
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	return &r
}

// The client receives the events and non-streaming responses of a provider that speaks the API unchanged.
//
// covers: P6.10 P5.4
func TestNativeResponsesPassUnchanged(t *testing.T) {
	h := newHarness(t, testOptions, "")
	passed := 0
	for _, rec := range recordings(t) {
		if rec.status != 200 {
			continue
		}
		t.Run(rec.name, func(t *testing.T) {
			h.t = t
			got := h.replay(&rec, rec.body == nil, true)
			if e := h.w.Failed(); e != nil {
				if rec.body == nil && len(got) > 0 {
					t.Errorf("after %v, the client received %s", e, got)
				}
				return
			}
			passed++
			if rec.body != nil {
				if !bytes.Equal(got, rec.body) {
					t.Errorf("got %s", got)
				}
				return
			}
			want := rec.events
			if want[len(want)-1].data == "[DONE]" {
				want = want[:len(want)-1] // not part of the API
			}
			if events := parseEvents(string(got)); !reflect.DeepEqual(events, want) {
				t.Errorf("got %d events that differ from the provider's %d", len(events), len(want))
			}
			if u := h.w.Usage(); u.Estimated && !strings.Contains(rec.name, "background") {
				t.Errorf("the usage was not read: %+v", u)
			}
		})
	}
	if passed < 90 {
		t.Errorf("only %d responses were complete", passed)
	}
}

// A truncated stream never ends like a complete one.
//
// covers: P6.9
func TestTruncatedStreamsFail(t *testing.T) {
	h := newHarness(t, testOptions, "")
	for _, rec := range recordings(t) {
		if len(rec.events) == 0 || strings.Contains(rec.name, "error") {
			continue
		}
		whole := rec.events
		for _, n := range []int{0, 1, 2, 3, 4, len(whole) / 2, len(whole) - 3, len(whole) - 2} {
			for _, pass := range []bool{false, true} {
				if n < 0 || n >= len(whole)-1 || strings.Contains(whole[n].data, `"response.completed"`) {
					continue
				}
				rec.events = whole[:n]
				out := h.replay(&rec, true, pass)
				events := parseEvents(string(out))
				if h.w.Complete() || h.w.Failed() == nil || bytes.Contains(out, []byte(`"response.completed"`)) ||
					len(events) > 0 && events[len(events)-1].name != "response.failed" {
					t.Fatalf("%s after %d events, passed on %v: %s", rec.name, n, pass, out)
				}
				if bytes.Contains(out[max(0, bytes.LastIndex(out, []byte("response.failed"))):], []byte(`"status":"in_progress"`)) {
					t.Errorf("%s after %d events: the last event has an item in progress: %s", rec.name, n, out)
				}
			}
		}
	}
}

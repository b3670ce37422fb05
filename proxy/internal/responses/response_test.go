package responses_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	sdk "github.com/openai/openai-go/v3/responses"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/openai/native"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/proxy/internal/responses"
	"github.com/sluice-gateway/sluice/proxy/internal/thinking"
)

// sseEvent is one event of a stream.
type sseEvent struct{ name, data string }

// recording is a recorded response of a provider.
type recording struct {
	name   string
	status int
	events []sseEvent // of a stream
	body   []byte     // of a non-streaming response
}

// recordings reads the recorded responses.
func recordings(t testing.TB) (all []recording) {
	t.Helper()
	paths, err := filepath.Glob("testdata/recorded/*.resp.*")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range paths {
		data, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		rec := recording{name: strings.SplitN(filepath.Base(p), ".", 2)[0], status: 200}
		switch {
		case strings.HasSuffix(p, ".sse"):
			rec.events = parseEvents(string(data))
		case strings.HasSuffix(p, ".chunks.txt"):
			for line := range strings.Lines(string(data)) {
				rec.events = append(rec.events, sseEvent{data: strings.TrimSpace(line)})
			}
		default:
			rec.body = data
			if at := strings.Index(rec.name, "error-"); at >= 0 {
				rec.status, _ = strconv.Atoi(strings.SplitN(rec.name[at+len("error-"):], "-", 2)[0])
				if rec.status == 0 || bytes.Contains(data, []byte(`"object"`)) {
					rec.status = 200
				}
			}
		}
		all = append(all, rec)
	}
	if len(all) < 100 {
		t.Fatalf("only %d recordings", len(all))
	}
	return all
}

// parseEvents splits the body of a stream.
func parseEvents(body string) (all []sseEvent) {
	for block := range strings.SplitSeq(body, "\n\n") {
		var ev sseEvent
		hasData := false
		for line := range strings.SplitSeq(block, "\n") {
			if rest, ok := strings.CutPrefix(line, "event: "); ok {
				ev.name = rest
			} else if rest, ok := strings.CutPrefix(line, "data: "); ok {
				if hasData {
					ev.data += "\n"
				}
				ev.data, hasData = ev.data+rest, true
			}
		}
		if hasData {
			all = append(all, ev)
		}
	}
	return all
}

const created = 1700000000

var testOptions = responses.Options{
	Sealer:  thinking.NewSealer(make([]byte, 32)),
	Failure: native.Failure,
	Now:     func() time.Time { return time.Unix(created+7, 0) },
}

// harness produces the response to one request.
type harness struct {
	t        testing.TB
	o        responses.Options
	api      *clientapi.API
	request  clientapi.Request
	renderer clientapi.Renderer
	reader   clientapi.Reader
	w        *response.Writer
	b        response.Batch
}

// newHarness returns a harness for a request with members besides model and input.
func newHarness(t testing.TB, o responses.Options, members string) *harness {
	t.Helper()
	h := &harness{t: t, o: o, api: responses.API(o)}
	h.request, h.renderer, h.reader = h.api.NewRequest(), h.api.NewRenderer(), h.api.NewReader()
	h.w = response.NewWriter(h.renderer)
	h.parse(members)
	return h
}

func (h *harness) parse(members string) {
	h.t.Helper()
	if members != "" {
		members = "," + members
	}
	if e := h.request.Parse([]byte(`{"model":"asked","input":"Hello."`+members+`}`), clientapi.Limits{}); e != nil {
		h.t.Fatal(e)
	}
	if e := h.request.(*responses.Request).Expand("client"); e != nil {
		h.t.Fatal(e)
	}
}

// begin starts a response. pass is set if it will be passed on.
func (h *harness) begin(stream, pass bool) {
	h.w.Reset(response.Options{Stream: stream, ID: "resp_test", Model: "target", Created: created, PromptEstimate: 7})
	h.renderer.Respond(h.request)
	if pass {
		h.renderer.Pass()
	}
	h.reader.Reset(pass)
}

// apply applies the batch, or err, the error of the reader that filled it.
func (h *harness) apply(err error) {
	h.t.Helper()
	if err == nil {
		err = h.w.Apply(&h.b)
	}
	h.b.Reset()
	if err == nil {
		return
	}
	var e *apierror.Error
	if !errors.As(err, &e) {
		h.t.Fatal(err)
	}
	h.w.Fail(e)
}

// replay reads a recording and returns what the client receives: nothing if that is an error status.
func (h *harness) replay(rec *recording, stream, pass bool) []byte {
	h.t.Helper()
	h.begin(stream, pass)
	if rec.body != nil {
		h.apply(h.reader.ReadResponse(rec.body, &h.b))
	}
	for _, ev := range rec.events {
		h.apply(h.reader.ReadEvent([]byte(ev.name), []byte(ev.data), &h.b))
		if h.w.Complete() || h.w.Failed() != nil {
			break
		}
	}
	return h.finish(stream)
}

func (h *harness) finish(stream bool) []byte {
	h.t.Helper()
	_ = h.w.End()
	if stream {
		return bytes.Clone(h.w.Output())
	}
	if h.w.Complete() {
		return h.w.AppendResponse(nil)
	}
	return nil
}

// summary is the content of a response that the official SDK reads.
type summary struct {
	ID, Status, Model string
	Texts             []string // of messages
	Refusals          []string
	Reasoning         []string // summaries and contents
	Calls             []string // ID, namespace, name and arguments or input
	Sealed            []string
	Annotations       int
	Usage             string
}

func summarize(r *sdk.Response) (s summary) {
	s = summary{ID: r.ID, Status: string(r.Status), Model: r.Model}
	for _, it := range r.Output {
		switch it.Type {
		case "message":
			for _, p := range it.Content {
				if p.Type == "refusal" {
					s.Refusals = append(s.Refusals, p.Refusal)
				} else {
					s.Texts = append(s.Texts, p.Text)
				}
				s.Annotations += len(p.Annotations)
			}
		case "reasoning":
			item := it.AsReasoning()
			for _, p := range item.Summary {
				s.Reasoning = append(s.Reasoning, p.Text)
			}
			for _, p := range item.Content {
				s.Reasoning = append(s.Reasoning, p.Text)
			}
			s.Sealed = append(s.Sealed, item.EncryptedContent)
		case "function_call":
			c := it.AsFunctionCall()
			s.Calls = append(s.Calls, c.CallID+" "+c.Namespace+" "+c.Name+" "+c.Arguments)
		case "custom_tool_call":
			c := it.AsCustomToolCall()
			s.Calls = append(s.Calls, c.CallID+" "+c.Namespace+" "+c.Name+" custom "+c.Input)
		}
	}
	u := r.Usage
	s.Usage = strings.Join([]string{strconv.Itoa(int(u.InputTokens)), strconv.Itoa(int(u.InputTokensDetails.CachedTokens)),
		strconv.Itoa(int(u.OutputTokens)), strconv.Itoa(int(u.OutputTokensDetails.ReasoningTokens)), strconv.Itoa(int(u.TotalTokens))}, " ")
	return s
}

// readWhole reads a response object with the SDK.
func readWhole(t testing.TB, body []byte) *sdk.Response {
	t.Helper()
	var r sdk.Response
	if err := json.Unmarshal(body, &r); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	for _, name := range []string{"id", "object", "created_at", "status", "error", "incomplete_details", "instructions", "metadata", "model", "output",
		"parallel_tool_calls", "temperature", "tool_choice", "tools", "top_p", "usage", "text", "reasoning", "truncation", "store", "previous_response_id"} {
		if !bytes.Contains(body, []byte(`"`+name+`":`)) {
			t.Errorf("the response has no %s: %s", name, body)
		}
	}
	return &r
}

// readStream reads a stream with the SDK, checks the properties that all streams of the gateway have, and returns the
// last response.
//
// covers: P6.1 P6.2 P6.3 P7.1 P7.2 P7.3 P7.4 P7.5 P5.5 P5.13
func readStream(t testing.TB, out []byte) *sdk.Response {
	t.Helper()
	var acc sdk.ResponseAccumulator
	if !bytes.HasSuffix(out, []byte("\n\n")) || bytes.Contains(out, []byte("[DONE]")) {
		t.Fatalf("the stream ends with %q", out[max(0, len(out)-80):])
	}
	type openItem struct {
		id, typ string
		text    strings.Builder
		done    bool
	}
	items := map[int64]*openItem{}
	var last *sdk.Response
	events := parseEvents(string(out))
	for i, ev := range events {
		var generic struct {
			Type           string
			SequenceNumber int64  `json:"sequence_number"`
			OutputIndex    *int64 `json:"output_index"`
			ItemID         string `json:"item_id"`
			Delta          string
			Text           *string
			Refusal        *string
			Arguments      *string
			Input          *string
			Logprobs       json.RawMessage
			Item           *struct {
				ID, Type, Status string
			}
			Response json.RawMessage
		}
		if err := json.Unmarshal([]byte(ev.data), &generic); err != nil {
			t.Fatalf("event %d: %v in %s", i, err, ev.data)
		}
		var union sdk.ResponsesServerEventUnion
		if err := json.Unmarshal([]byte(ev.data), &union); err != nil {
			t.Fatalf("event %d: %v in %s", i, err, ev.data)
		}
		if err := acc.AddEvent(union); err != nil {
			t.Fatalf("event %d: the accumulator returned %v: %s", i, err, ev.data)
		}
		if ev.name != generic.Type || generic.SequenceNumber != int64(i) {
			t.Fatalf("event %d is named %q and has the data %.200s", i, ev.name, ev.data)
		}
		terminal := ev.name == "response.completed" || ev.name == "response.incomplete" || ev.name == "response.failed"
		switch {
		case (i == 0) != (ev.name == "response.created"), (i == 1) != (ev.name == "response.in_progress"), (i == len(events)-1) != terminal:
			t.Fatalf("event %d of %d is %s", i, len(events), ev.name)
		}
		if generic.Response != nil {
			r := readWhole(t, generic.Response)
			if last != nil && (r.ID != last.ID || r.CreatedAt != last.CreatedAt) {
				t.Errorf("event %d has a different ID or time: %.300s", i, ev.data)
			}
			if i < 2 && (r.Status != "in_progress" || len(r.Output) > 0 || r.JSON.Usage.Raw() != "null") {
				t.Errorf("event %d: %s", i, ev.data)
			}
			last = r
			continue
		}
		if generic.OutputIndex == nil {
			t.Fatalf("event %d has no output_index: %s", i, ev.data)
		}
		it := items[*generic.OutputIndex]
		switch {
		case ev.name == "response.output_item.added":
			if it != nil || generic.Item.Status != "in_progress" || *generic.OutputIndex != int64(len(items)) || len(items) > 0 && !items[*generic.OutputIndex-1].done {
				t.Fatalf("event %d: %s", i, ev.data)
			}
			items[*generic.OutputIndex] = &openItem{id: generic.Item.ID, typ: generic.Item.Type}
			continue
		case it == nil || it.done:
			t.Fatalf("event %d belongs to an item that is not open: %s", i, ev.data)
		case ev.name == "response.output_item.done":
			if generic.Item.ID != it.id || generic.Item.Type != it.typ || generic.Item.Status == "in_progress" {
				t.Fatalf("event %d: %s", i, ev.data)
			}
			it.done = true
			continue
		case generic.ItemID != it.id:
			t.Fatalf("event %d has a different item_id: %s", i, ev.data)
		}
		if strings.HasPrefix(ev.name, "response.output_text.d") && generic.Logprobs == nil {
			t.Errorf("event %d has no logprobs", i)
		}
		it.text.WriteString(generic.Delta)
		for _, text := range []*string{generic.Text, generic.Refusal, generic.Arguments, generic.Input} {
			if text != nil && *text != it.text.String() {
				t.Errorf("event %d: the text is %q, its pieces %q", i, *text, it.text.String())
			}
		}
	}
	if last == nil {
		t.Fatal("no response in the stream")
	}
	for n, it := range items {
		if !it.done && last.Status != "failed" {
			t.Errorf("item %d is not done", n)
		}
	}
	if last.Status != "failed" {
		if got, err := acc.ReconstructedResponse(); err != nil || !reflect.DeepEqual(summarize(got), summarize(last)) {
			t.Errorf("accumulated %+v, %v", summarize(got), err)
		}
		if snapshot := acc.Snapshot().OutputText(); snapshot != strings.Join(summarize(last).Texts, "") {
			t.Errorf("the text is %q", snapshot)
		}
	}
	return last
}

// TestEnded tells responses apart that are being generated, that have ended, and what is none.
func TestEnded(t *testing.T) {
	for body, want := range map[string][3]bool{ // ended, cancelled, pending
		`{"object":"response","status":"queued","output":[]}`:      {false, false, true},
		`{"object":"response","status":"in_progress","output":[]}`: {false, false, true},
		`{"object":"response","status":"completed","output":[]}`:   {true, false, false},
		`{"object":"response","status":"incomplete","output":[]}`:  {true, false, false},
		`{"object":"response","status":"failed","output":[]}`:      {true, false, false},
		`{"object":"response","status":"cancelled","output":[]}`:   {true, true, false},
		`{"object":"response","output":[]}`:                        {false, false, false},
		`{"object":"response","status":null,"output":[]}`:          {false, false, false},
		`{"error":{"message":"busy"}}`:                             {false, false, false},
		`{"object":"list","status":"completed"}`:                   {false, false, false},
		`{"object":"response","status":"completed"`:                {false, false, false},
		``: {false, false, false},
	} {
		r := responses.NewReader(func(int, []byte) *apierror.Error { return new(apierror.Error) })
		var b response.Batch
		_ = r.ReadResponse([]byte(body), &b)
		if got := [3]bool{responses.Ended([]byte(body)), responses.Cancelled([]byte(body)), r.Pending()}; got != want {
			t.Errorf("%s: got %v, want %v", body, got, want)
		}
		if r.Reset(false); r.Pending() {
			t.Errorf("%s: pending after a reset", body)
		}
	}
}

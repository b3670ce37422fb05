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

// recording is a response that a provider gave.
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
		some := false
		for line := range strings.SplitSeq(block, "\n") {
			if rest, ok := strings.CutPrefix(line, "event: "); ok {
				ev.name = rest
			} else if rest, ok := strings.CutPrefix(line, "data: "); ok {
				if some {
					ev.data += "\n"
				}
				ev.data, some = ev.data+rest, true
			}
		}
		if some {
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

// gateway is what the response to one request is made with.
type gateway struct {
	t        testing.TB
	o        responses.Options
	api      *clientapi.API
	request  clientapi.Request
	renderer clientapi.Renderer
	reader   clientapi.Reader
	w        *response.Writer
	b        response.Batch
}

// newGateway is for a request with these members besides model and input.
func newGateway(t testing.TB, o responses.Options, members string) *gateway {
	t.Helper()
	g := &gateway{t: t, o: o, api: responses.API(o)}
	g.request, g.renderer, g.reader = g.api.NewRequest(), g.api.NewRenderer(), g.api.NewReader()
	g.w = response.NewWriter(g.renderer)
	g.parse(members)
	return g
}

func (g *gateway) parse(members string) {
	g.t.Helper()
	if members != "" {
		members = "," + members
	}
	if e := g.request.Parse([]byte(`{"model":"asked","input":"Hello."`+members+`}`), clientapi.Limits{}); e != nil {
		g.t.Fatal(e)
	}
	if e := g.request.(*responses.Request).Expand("client"); e != nil {
		g.t.Fatal(e)
	}
}

// begin prepares for a response.
func (g *gateway) begin(stream, pass bool) {
	g.w.Reset(response.Options{Stream: stream, ID: "resp_test", Model: "target", Created: created, PromptEstimate: 7})
	g.renderer.Respond(g.request)
	if pass {
		g.renderer.Pass()
	}
	g.reader.Reset(pass)
}

// apply applies what the reader, or a test, has put into the batch.
func (g *gateway) apply(err error) {
	g.t.Helper()
	if err == nil {
		err = g.w.Apply(&g.b)
	}
	g.b.Reset()
	if err == nil {
		return
	}
	var e *apierror.Error
	if !errors.As(err, &e) {
		g.t.Fatal(err)
	}
	g.w.Fail(e)
}

// replay reads a recording, and returns what the client gets: of a failure that it learns from the status, nothing.
func (g *gateway) replay(rec *recording, stream, pass bool) []byte {
	g.t.Helper()
	g.begin(stream, pass)
	if rec.body != nil {
		g.apply(g.reader.ReadResponse(rec.body, &g.b))
	}
	for _, ev := range rec.events {
		g.apply(g.reader.ReadEvent([]byte(ev.name), []byte(ev.data), &g.b))
		if g.w.Complete() || g.w.Failed() != nil {
			break
		}
	}
	return g.finish(stream)
}

func (g *gateway) finish(stream bool) []byte {
	g.t.Helper()
	_ = g.w.End()
	if stream {
		return bytes.Clone(g.w.Output())
	}
	if g.w.Complete() {
		return g.w.AppendResponse(nil)
	}
	return nil
}

// facts is what a client of the official SDK learns from a response.
type facts struct {
	ID, Status, Model string
	Texts             []string // of messages
	Refusals          []string
	Reasoning         []string // summaries and contents
	Calls             []string // id, name and arguments or input
	Sealed            []string
	Annotations       int
	Usage             string
}

func factsOf(r *sdk.Response) (f facts) {
	f = facts{ID: r.ID, Status: string(r.Status), Model: r.Model}
	for _, it := range r.Output {
		switch it.Type {
		case "message":
			for _, p := range it.Content {
				if p.Type == "refusal" {
					f.Refusals = append(f.Refusals, p.Refusal)
				} else {
					f.Texts = append(f.Texts, p.Text)
				}
				f.Annotations += len(p.Annotations)
			}
		case "reasoning":
			item := it.AsReasoning()
			for _, p := range item.Summary {
				f.Reasoning = append(f.Reasoning, p.Text)
			}
			for _, p := range item.Content {
				f.Reasoning = append(f.Reasoning, p.Text)
			}
			f.Sealed = append(f.Sealed, item.EncryptedContent)
		case "function_call":
			c := it.AsFunctionCall()
			f.Calls = append(f.Calls, c.CallID+" "+c.Namespace+" "+c.Name+" "+c.Arguments)
		case "custom_tool_call":
			c := it.AsCustomToolCall()
			f.Calls = append(f.Calls, c.CallID+" "+c.Namespace+" "+c.Name+" custom "+c.Input)
		}
	}
	u := r.Usage
	f.Usage = strings.Join([]string{strconv.Itoa(int(u.InputTokens)), strconv.Itoa(int(u.InputTokensDetails.CachedTokens)),
		strconv.Itoa(int(u.OutputTokens)), strconv.Itoa(int(u.OutputTokensDetails.ReasoningTokens)), strconv.Itoa(int(u.TotalTokens))}, " ")
	return f
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

// readStream reads a stream with the SDK, checks what holds for every stream that the gateway writes, and returns the last
// response.
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
			t.Fatalf("event %d: the accumulator says %v: %s", i, err, ev.data)
		}
		if ev.name != generic.Type || generic.SequenceNumber != int64(i) {
			t.Fatalf("event %d is called %q and says %.200s", i, ev.name, ev.data)
		}
		terminal := ev.name == "response.completed" || ev.name == "response.incomplete" || ev.name == "response.failed"
		switch {
		case (i == 0) != (ev.name == "response.created"), (i == 1) != (ev.name == "response.in_progress"), (i == len(events)-1) != terminal:
			t.Fatalf("event %d of %d is %s", i, len(events), ev.name)
		}
		if generic.Response != nil {
			r := readWhole(t, generic.Response)
			if last != nil && (r.ID != last.ID || r.CreatedAt != last.CreatedAt) {
				t.Errorf("event %d has another id or time: %.300s", i, ev.data)
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
			if it != nil || generic.Item.Status != "in_progress" || *generic.OutputIndex != int64(len(items)) {
				t.Fatalf("event %d: %s", i, ev.data)
			}
			items[*generic.OutputIndex] = &openItem{id: generic.Item.ID, typ: generic.Item.Type}
			continue
		case it == nil || it.done:
			t.Fatalf("event %d is of an item that is not open: %s", i, ev.data)
		case ev.name == "response.output_item.done":
			if generic.Item.ID != it.id || generic.Item.Type != it.typ || generic.Item.Status == "in_progress" {
				t.Fatalf("event %d: %s", i, ev.data)
			}
			it.done = true
			continue
		case generic.ItemID != it.id:
			t.Fatalf("event %d has another item_id: %s", i, ev.data)
		}
		if strings.HasPrefix(ev.name, "response.output_text.d") && generic.Logprobs == nil {
			t.Errorf("event %d has no logprobs", i)
		}
		it.text.WriteString(generic.Delta)
		for _, text := range []*string{generic.Text, generic.Refusal, generic.Arguments, generic.Input} {
			if text != nil && *text != it.text.String() {
				t.Errorf("event %d: the whole is %q, the pieces %q", i, *text, it.text.String())
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
		if got, err := acc.ReconstructedResponse(); err != nil || !reflect.DeepEqual(factsOf(got), factsOf(last)) {
			t.Errorf("accumulated %+v, %v", factsOf(got), err)
		}
		if snapshot := acc.Snapshot().OutputText(); snapshot != strings.Join(factsOf(last).Texts, "") {
			t.Errorf("the text is %q", snapshot)
		}
	}
	return last
}

package response_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/openai"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// completion is a response as a client reads it.
type completion struct {
	ID, Model string
	Choices   map[int]*choice
	Usage     map[string]any
}

type choice struct {
	Content, Refusal, Reasoning string
	Details                     []detail
	Tools                       []toolCall
	Finish, Native              string
	Logprobs                    []any
	Annotations                 []any
}

type detail struct {
	Type, Format, ID               string
	Index                          int
	Text, Summary, Signature, Data string
}

type toolCall struct{ ID, Name, Arguments string }

// part is a delta or a message as it is sent.
type part struct {
	Role             string
	Content          *string
	Refusal          *string
	ReasoningContent string   `json:"reasoning_content"`
	ReasoningDetails []detail `json:"reasoning_details"`
	ToolCalls        []struct {
		Index    int
		ID, Type string
		Function struct{ Name, Arguments string }
	} `json:"tool_calls"`
	Annotations []any
}

// body is a chunk or a non-streaming response as it is sent.
type body struct {
	ID, Object, Model string
	Created           int64
	Choices           []struct {
		Index              int
		Delta, Message     *part
		FinishReason       *string `json:"finish_reason"`
		NativeFinishReason string  `json:"native_finish_reason"`
		Logprobs           *struct{ Content []any }
	}
	Usage map[string]any
	Error map[string]any
}

// add adds a delta, or the message of a non-streaming response.
func (c *choice) add(p *part, whole bool) {
	if p.Content != nil {
		c.Content += *p.Content
	}
	if p.Refusal != nil {
		c.Refusal += *p.Refusal
	}
	c.Reasoning += p.ReasoningContent
	for _, d := range p.ReasoningDetails {
		at := -1
		for i, e := range c.Details {
			if e.Type == d.Type && e.Index == d.Index && e.ID == d.ID {
				at = i
			}
		}
		if at < 0 {
			c.Details = append(c.Details, d)
			continue
		}
		e := &c.Details[at]
		e.Text += d.Text
		e.Summary += d.Summary
		e.Signature += d.Signature
		e.Data += d.Data
	}
	for i, t := range p.ToolCalls {
		index := t.Index
		if whole {
			index = i
		}
		for index >= len(c.Tools) {
			c.Tools = append(c.Tools, toolCall{})
		}
		c.Tools[index].ID += t.ID
		c.Tools[index].Name += t.Function.Name
		c.Tools[index].Arguments += t.Function.Arguments
	}
	c.Annotations = append(c.Annotations, p.Annotations...)
}

// add adds a chunk or a non-streaming response, and returns an error if it contradicts the earlier ones.
func (s *completion) add(data string, whole bool) error {
	var w body
	if err := json.Unmarshal([]byte(data), &w); err != nil {
		return err
	}
	if s.Choices == nil {
		s.ID, s.Model, s.Choices = w.ID, w.Model, map[int]*choice{}
	}
	if w.ID != s.ID || w.Model != s.Model || w.Created != 1700000000 {
		return fmt.Errorf("id, model or created differs from the first chunk")
	}
	for _, c := range w.Choices {
		p := c.Delta
		if whole {
			p = c.Message
		}
		sc := s.Choices[c.Index]
		if sc == nil {
			if p.Role != "assistant" {
				return fmt.Errorf("the first delta of the choice has no role")
			}
			sc = &choice{}
			s.Choices[c.Index] = sc
		} else if p.Role != "" {
			return fmt.Errorf("the choice has a second role")
		}
		if sc.Finish != "" {
			return fmt.Errorf("the choice has a chunk after its finish_reason")
		}
		sc.add(p, whole)
		if c.FinishReason != nil {
			sc.Finish, sc.Native = *c.FinishReason, c.NativeFinishReason
		}
		if c.Logprobs != nil {
			sc.Logprobs = append(sc.Logprobs, c.Logprobs.Content...)
		}
	}
	if w.Usage != nil {
		s.Usage = w.Usage
	}
	return nil
}

// event adds one event of a random response to a batch.
type event func(b *response.Batch)

// drawText draws a text in a random encoding.
func drawText(t *rapid.T) (abi.Encoding, string) {
	switch rapid.IntRange(0, 3).Draw(t, "encoding") {
	case 0:
		pieces := rapid.SliceOfN(rapid.SampledFrom([]string{`a`, ` `, `\"`, `\\`, `\n`, `\/`, `é`, `\u00e9`, `\ud83d`, `\ude00`, `\ud83d\ude00`, "\xe2\x82\xac", "\xff", `u`, `d83d`}), 0, 6).Draw(t, "escaped")
		return abi.EncodingEscaped, strings.Join(pieces, "")
	case 1:
		return abi.EncodingJSON, rapid.SampledFrom([]string{`{"a": 1}`, `[ ]`, ` "x\ny" `, `1e3`, `null`, `{"é":"\ud83d\ude00"}`}).Draw(t, "json")
	}
	return abi.EncodingUTF8, string(rapid.SliceOfN(rapid.SampledFrom([]byte("ab\"\\\n\x00\xe2\x82\xac\xf0\x9f\x98\x80\xff")), 0, 8).Draw(t, "utf8"))
}

// drawEvents draws the events of a response, without Done.
func drawEvents(t *rapid.T) []event {
	var all []event
	add := func(e event) { all = append(all, e) }
	if rapid.Bool().Draw(t, "start") {
		add(func(b *response.Batch) { b.Start([]byte("id"), []byte("m"), []byte("fmt")) })
	}
	keys := rapid.Int32Range(-1, 3)
	for range rapid.IntRange(1, 25).Draw(t, "events") {
		choice := rapid.Int32Range(0, 2).Draw(t, "choice")
		key := keys.Draw(t, "key")
		enc, s := drawText(t)
		if rapid.IntRange(0, 9).Draw(t, "default") == 0 {
			enc |= abi.EncodingDefault
		}
		switch rapid.IntRange(0, 11).Draw(t, "kind") {
		case 0, 1, 2:
			add(func(b *response.Batch) { b.Text(choice, enc, []byte(s)) })
		case 3:
			add(func(b *response.Batch) { b.Refusal(choice, enc, []byte(s)) })
		case 4, 5:
			p := rapid.Int32Range(0, 3).Draw(t, "part")
			add(func(b *response.Batch) { b.Reasoning(choice, abi.ReasoningPart(p), key, enc, []byte(s)) })
		case 6:
			id := rapid.SampledFrom([]string{"", "call_x"}).Draw(t, "id")
			add(func(b *response.Batch) { b.ToolCall(choice, key, []byte(id), []byte("f")) })
		case 7, 8:
			add(func(b *response.Batch) { b.ToolArguments(choice, key, enc, []byte(s)) })
		case 9:
			add(func(b *response.Batch) { b.ToolEnd(choice, key) })
		case 10:
			name, value, scope := "logprobs", `{"content":[1,2],"refusal":null}`, abi.ScopeChoice
			if rapid.Bool().Draw(t, "message") {
				name, value, scope = "annotations", `[3]`, abi.ScopeMessage
			}
			add(func(b *response.Batch) { b.Extra(scope, choice, 0, []byte(name), []byte(value)) })
		case 11:
			kind, n := abi.UsageKind(rapid.IntRange(0, int(abi.UsageKinds)-1).Draw(t, "usage")), rapid.Int64Range(0, 1000).Draw(t, "count")
			add(func(b *response.Batch) { b.Usage(kind, n) })
		}
	}
	for choice := range int32(3) {
		if rapid.IntRange(0, 3).Draw(t, "finish") > 0 {
			reason := abi.FinishReason(rapid.IntRange(0, int(abi.FinishReasons)-1).Draw(t, "reason"))
			add(func(b *response.Batch) { b.Finish(choice, reason, []byte("native")) })
		}
	}
	return all
}

// play applies events to a writer, in batches of random sizes.
func play(t *rapid.T, w *response.Writer, events []event, name string) {
	var b response.Batch
	for len(events) > 0 {
		n := rapid.IntRange(1, len(events)).Draw(t, name)
		b.Reset()
		for _, e := range events[:n] {
			e(&b)
		}
		if err := w.Apply(&b); err != nil {
			t.Fatal(err)
		}
		events = events[n:]
	}
}

func propertyOptions(stream bool) response.Options {
	return response.Options{Stream: stream, IncludeUsage: true, ID: "own", Model: "asked", Created: 1700000000, PromptEstimate: 3}
}

// TestStreamEqualsNonStreamingResponse writes random responses, split into batches in two ways, as a stream and as one
// body.
func TestStreamEqualsNonStreamingResponse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := drawEvents(t)
		events = append(events, func(b *response.Batch) { b.Text(0, abi.EncodingUTF8, nil); b.Done(abi.DoneNow) })

		s, w := openai.NewWriter(), openai.NewWriter()
		s.Reset(propertyOptions(true))
		w.Reset(propertyOptions(false))
		play(t, s, events, "streamed batch")
		play(t, w, events, "non-streaming batch")
		if a, b := s.Failed(), w.Failed(); a != nil && b != nil && a.Code == b.Code {
			return // both failed because of a truncated tool call
		}
		if !s.Complete() || !w.Complete() {
			t.Fatalf("streaming: complete %v, failed %v; non-streaming: complete %v, failed %v", s.Complete(), s.Failed(), w.Complete(), w.Failed())
		}

		var streamed, nonStreaming completion
		frames := strings.Split(strings.TrimSuffix(string(s.Output()), "\n\n"), "\n\n")
		for i, f := range frames {
			data, ok := strings.CutPrefix(f, "data: ")
			if !ok || strings.ContainsAny(data, "\n\r") {
				t.Fatalf("not a frame: %q", f)
			}
			if last := i == len(frames)-1; (data == "[DONE]") != last {
				t.Fatalf("frame %d of %d is %s", i, len(frames), data)
			} else if last {
				break
			}
			if err := streamed.add(data, false); err != nil {
				t.Fatalf("%v: %s", err, data)
			}
		}
		whole := string(w.AppendResponse(nil))
		if err := nonStreaming.add(whole, true); err != nil {
			t.Fatalf("%v: %s", err, whole)
		}
		for i, c := range streamed.Choices {
			if c.Finish == "" {
				t.Fatalf("choice %d has no finish_reason", i)
			}
		}
		if !reflect.DeepEqual(streamed, nonStreaming) {
			t.Fatalf("streaming\n%s\nnon-streaming\n%s\nfrom\n%s\nand\n%s", dump(streamed), dump(nonStreaming), s.Output(), whole)
		}
		if s.Usage() != w.Usage() {
			t.Fatalf("usage %+v streaming, %+v non-streaming", s.Usage(), w.Usage())
		}
		if s.Dropped() != w.Dropped() {
			t.Fatalf("dropped %d streaming, %d non-streaming", s.Dropped(), w.Dropped())
		}
	})
}

func dump(v any) string {
	p, _ := json.MarshalIndent(v, "", " ")
	return string(p)
}

// TestStreamEndsOnce ends random responses in every possible way and applies more events afterwards.
func TestStreamEndsOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := drawEvents(t)
		cut := rapid.IntRange(0, len(events)).Draw(t, "end")
		end := rapid.IntRange(0, 5).Draw(t, "ending")
		w := openai.NewWriter()
		w.Reset(propertyOptions(true))
		play(t, w, events[:cut], "batch")
		started := w.Started()
		var b response.Batch
		switch end {
		case 0:
			b.Done(abi.DoneNow)
		case 1:
			b.Fail(apierror.Fail(abi.FailServer, "", "", ""))
		case 2:
			b.Done(abi.DoneNow)
			b.Fail(apierror.Fail(abi.FailServer, "", "", ""))
		case 3:
			b.Done(abi.DoneAtEnd)
		case 4:
			w.Fail(response.Truncated())
		}
		if err := w.Apply(&b); err != nil {
			t.Fatal(err)
		}
		_ = w.End()
		ended := string(w.Output())
		if w.Complete() == (w.Failed() != nil) {
			t.Fatalf("complete %v, failed %v", w.Complete(), w.Failed())
		}
		if done, failed := strings.Count(ended, "data: [DONE]\n\n"), strings.Count(ended, `data: {"error":`); w.Complete() && (done != 1 || failed != 0) ||
			!w.Complete() && (done != 0 || failed != min(1, len(ended))) {
			t.Fatalf("%d [DONE], %d errors in %s", done, failed, ended)
		}
		if end == 1 && !started && ended != "" {
			t.Fatalf("output of a failure before the first byte: %s", ended)
		}
		play(t, w, events[cut:], "late batch")
		w.Fail(response.Truncated())
		_ = w.End()
		if got := string(w.Output()); got != ended {
			t.Fatalf("output after the end: %s", got[len(ended):])
		}
	})
}

// TestRejectedBatchesHaveNoEffect mixes rejected batches into random responses.
func TestRejectedBatchesHaveNoEffect(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := drawEvents(t)
		stream := rapid.Bool().Draw(t, "stream")
		plain, mixed := openai.NewWriter(), openai.NewWriter()
		plain.Reset(propertyOptions(stream))
		mixed.Reset(propertyOptions(stream))
		var b response.Batch
		for _, e := range events {
			b.Reset()
			for range rapid.IntRange(0, 3).Draw(t, "rejected") {
				rapid.SampledFrom(events).Draw(t, "event")(&b)
			}
			b.Text(0, abi.EncodingEscaped, []byte(`"`))
			e(&b)
			if mixed.Apply(&b) == nil {
				t.Fatal("a batch with an unescaped quote was accepted")
			}
			b.Reset()
			e(&b)
			for _, w := range []*response.Writer{plain, mixed} {
				if err := w.Apply(&b); err != nil {
					t.Fatal(err)
				}
			}
		}
		b.Reset()
		b.Text(0, abi.EncodingUTF8, nil)
		b.Done(abi.DoneNow)
		for _, w := range []*response.Writer{plain, mixed} {
			if err := w.Apply(&b); err != nil {
				t.Fatal(err)
			}
		}
		if got, want := string(mixed.Output()), string(plain.Output()); got != want {
			t.Fatalf("got\n%s\nwant\n%s", got, want)
		}
		if got, want := string(mixed.AppendResponse(nil)), string(plain.AppendResponse(nil)); got != want {
			t.Fatalf("got\n%s\nwant\n%s", got, want)
		}
	})
}

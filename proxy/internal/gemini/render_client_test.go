package gemini_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/gemini"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// testWriter is a response writer with a renderer of this API.
type testWriter struct {
	*response.Writer
	renderer *gemini.Renderer
}

func newTestWriter() testWriter {
	r := gemini.NewRenderer(sealer)
	return testWriter{response.NewWriter(r), r}
}

// reset starts a response. thoughts is set if the client asks for thoughts, and pass if the response is passed on.
func (w testWriter) reset(t testing.TB, stream, thoughts, pass bool) {
	t.Helper()
	w.Reset(writerOptions(stream))
	q := gemini.NewRequest(sealer)
	q.Address("m", stream)
	if e := q.Parse([]byte(helloRequest(fmt.Sprintf(`,"generationConfig":{"thinkingConfig":{"includeThoughts":%t}}`, thoughts))), clientapi.Limits{}); e != nil {
		t.Fatal(e)
	}
	w.renderer.Respond(q)
	if pass {
		w.renderer.Pass()
	}
}

func writerOptions(stream bool) response.Options {
	return response.Options{Stream: stream, ID: "resp_own", RequestID: "req-1", Model: "asked", Created: 1700000000, PromptEstimate: 7}
}

// apply applies a batch as the gateway does, with the errors of the provider and the reader. It returns other errors,
// which are plugins' violations of the protocol.
func (w testWriter) apply(b *response.Batch, err error) error {
	if err == nil {
		err = w.Apply(b)
	}
	var e *apierror.Error
	if errors.As(err, &e) {
		w.Fail(e)
		return nil
	}
	return err
}

// body returns the bytes that the client receives for a complete response.
func (w testWriter) body(stream bool) []byte {
	if stream {
		return w.Output()
	}
	return w.AppendResponse(nil)
}

// script holds functions that each fill one batch of a response.
type script []func(b *response.Batch)

func (s script) play(t testing.TB, w testWriter) {
	t.Helper()
	var b response.Batch
	for _, f := range s {
		b.Reset()
		f(&b)
		if err := w.apply(&b, nil); err != nil {
			var protocol *response.ProtocolError
			if !errors.As(err, &protocol) {
				t.Fatal(err)
			}
			w.Fail(apierror.Fail(abi.FailServer, "plugin_protocol", "", ""))
		}
	}
	_ = w.End()
}

func inOneBatch(events ...func(b *response.Batch)) func(b *response.Batch) {
	return func(b *response.Batch) {
		for _, f := range events {
			f(b)
		}
	}
}

func text(s string) func(b *response.Batch) {
	return func(b *response.Batch) { b.Text(0, abi.EncodingUTF8, []byte(s)) }
}

func reasoning(part abi.ReasoningPart, key int32, s string) func(b *response.Batch) {
	return func(b *response.Batch) { b.Reasoning(0, part, key, abi.EncodingUTF8, []byte(s)) }
}

func call(key int32, id, name string) func(b *response.Batch) {
	return func(b *response.Batch) { b.ToolCall(0, key, []byte(id), []byte(name)) }
}

func args(key int32, s string) func(b *response.Batch) {
	return func(b *response.Batch) { b.ToolArguments(0, key, abi.EncodingUTF8, []byte(s)) }
}

func start(format string) func(b *response.Batch) {
	return func(b *response.Batch) { b.Start([]byte("id-1"), []byte("model-1"), []byte(format)) }
}

func usage(kind abi.UsageKind, n int64) func(b *response.Batch) {
	return func(b *response.Batch) { b.Usage(kind, n) }
}

func finish(reason abi.FinishReason, native string) func(b *response.Batch) {
	return func(b *response.Batch) { b.Finish(0, reason, []byte(native)) }
}

func done(b *response.Batch) { b.Done(abi.DoneNow) }

// decodedResponse is a response, or a chunk of one, as clients decode it.
type decodedResponse struct {
	Candidates []struct {
		Index   int
		Content struct {
			Role  string
			Parts []struct {
				Text             *string
				Thought          bool
				ThoughtSignature string
				FunctionCall     *struct {
					ID, Name string
					Args     json.RawMessage
				}
				InlineData *struct{ MimeType, Data string }
			}
		}
		FinishReason   string
		LogprobsResult *struct {
			ChosenCandidates []struct {
				Token          string
				LogProbability float64
			}
			TopCandidates []struct{ Candidates []struct{ Token string } }
		}
	}
	UsageMetadata  *struct{ PromptTokenCount, CandidatesTokenCount, TotalTokenCount, CachedContentTokenCount, ThoughtsTokenCount int64 }
	PromptFeedback *struct{ BlockReason string }
	ModelVersion   string
	ResponseID     string
	Error          *struct {
		Code            int
		Message, Status string
	}
}

// decode decodes a response or a chunk.
func decode(t testing.TB, data []byte) (c decodedResponse) {
	t.Helper()
	if err := json.Unmarshal(data, &c); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	return c
}

// decodeChunks decodes the events of a stream, which must be data lines only.
func decodeChunks(t testing.TB, stream []byte) (all []decodedResponse) {
	t.Helper()
	for event := range strings.SplitAfterSeq(string(stream), "\n\n") {
		if event == "" {
			continue
		}
		data, ok := strings.CutPrefix(event, "data: ")
		if !ok || strings.Contains(strings.TrimSuffix(data, "\n\n"), "\n") {
			t.Fatalf("malformed event %q", event)
		}
		all = append(all, decode(t, []byte(data)))
	}
	return all
}

// summarize returns the content of a response in a form that is the same for a stream and for one document.
func summarize(t testing.TB, body []byte, stream bool) string {
	t.Helper()
	all := []decodedResponse{}
	if stream {
		all = decodeChunks(t, body)
	} else {
		all = append(all, decode(t, body))
	}
	var thoughts, texts, calls [4]bytes.Buffer // of each candidate, whose parts a stream may interleave
	var rest bytes.Buffer
	for _, c := range all {
		if c.Error != nil {
			fmt.Fprintf(&rest, "error %d %s\n", c.Error.Code, c.Error.Status)
			continue
		}
		for _, candidate := range c.Candidates {
			for _, p := range candidate.Content.Parts {
				switch {
				case p.FunctionCall != nil:
					fmt.Fprintf(&calls[candidate.Index], "call %d %s(%s)\n", candidate.Index, p.FunctionCall.Name, compact(p.FunctionCall.Args))
				case p.InlineData != nil:
					fmt.Fprintf(&calls[candidate.Index], "data %s %d bytes\n", p.InlineData.MimeType, len(p.InlineData.Data))
				case p.Thought:
					thoughts[candidate.Index].WriteString(*p.Text)
				case p.Text != nil:
					texts[candidate.Index].WriteString(*p.Text)
				}
			}
			if candidate.FinishReason != "" {
				fmt.Fprintf(&rest, "finish %d %s\n", candidate.Index, candidate.FinishReason)
			}
		}
	}
	if last := all[len(all)-1]; last.UsageMetadata != nil {
		fmt.Fprintf(&rest, "usage %+v\n", *last.UsageMetadata)
	}
	var b bytes.Buffer
	for i := range texts {
		if i == 0 || thoughts[i].Len()+texts[i].Len()+calls[i].Len() > 0 {
			fmt.Fprintf(&b, "thoughts %q\ntext %q\n%s", thoughts[i].String(), texts[i].String(), calls[i].String())
		}
	}
	b.Write(rest.Bytes())
	return b.String()
}

func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return err.Error()
	}
	return b.String()
}

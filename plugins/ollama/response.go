package ollama

import (
	"encoding/binary"

	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

// Keys in the gateway: the reasoning of a response is one block, and its tool calls have ascending keys.
const (
	reasoningKey = 0
	firstCallKey = 1
)

// line is a line of a stream, or a non-streaming response. Its slices share the memory of the data; strings are escaped
// string contents, except model.
type line struct {
	model             []byte
	content, thinking []byte
	calls             json.Value
	images            bool
	message           bool // the member message is present
	logprobs          json.Value
	failure           json.Value
	status            int64 // HTTP status of the failure, 0 if unset

	done                      bool
	reason                    []byte
	prompt, cached, generated int64 // token counts, -1 if unset
}

// Response reads a non-streaming response or an error.
func (p *ollama) Response(a *provider.Answer, status int, body []byte) error {
	if status >= 300 {
		return failure(json.Value(body).Get("error"), status)
	}
	if translate.Embeds(a) {
		return p.readVectors(a, body)
	}
	l, err := p.read(body)
	if err != nil {
		return err
	}
	if !l.message && !l.failure.Exists() {
		return sdk.Fail(abi.FailBadAnswer, "")
	}
	return l.emit(a)
}

// Event reads one line of a stream.
func (p *ollama) Event(a *provider.Answer, e *provider.Event) error {
	l, err := p.read(e.Data)
	if err != nil {
		return err
	}
	if !l.message && !l.done && !l.failure.Exists() {
		a.Unknown([]byte("line without a message"))
		return nil
	}
	return l.emit(a)
}

func (p *ollama) read(data []byte) (l line, err error) {
	l.prompt, l.cached, l.generated = -1, -1, -1
	r := &p.reader
	r.Reset(data)
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "model":
			l.model = r.Text()
		case "message":
			l.message = r.Kind() == json.Object
			l.readMessage(r)
		case "done":
			l.done, _ = r.Bool()
		case "done_reason":
			l.reason = r.Inside()
		case "prompt_eval_count":
			l.prompt = readCount(r)
		case "prompt_eval_cached_count":
			l.cached = readCount(r)
		case "eval_count":
			l.generated = readCount(r)
		case "logprobs":
			l.logprobs = r.Raw()
		case "error":
			if r.Kind() != json.Null {
				l.failure = r.Raw()
			}
		case "status":
			l.status, _ = r.Int()
		}
	}
	return l, r.End()
}

func (l *line) readMessage(r *json.Reader) {
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "content":
			l.content = r.Inside()
		case "thinking":
			l.thinking = r.Inside()
		case "tool_calls":
			l.calls = r.Raw()
		case "images":
			l.images = r.Kind() == json.Array
		}
	}
}

// emit emits a line. Every line contains the model; the API has no response IDs.
func (l *line) emit(a *provider.Answer) error {
	if l.failure.Exists() {
		return failure(l.failure, int(l.status))
	}
	a.Start(nil, provider.FitName(l.model), format)
	if len(l.thinking) > 0 {
		a.Reasoning(0, abi.ReasoningText, reasoningKey, abi.EncodingEscaped, l.thinking)
	}
	if len(l.content) > 0 {
		a.Text(0, abi.EncodingEscaped, l.content)
	}
	if l.logprobs.Kind() == json.Array && (len(l.content) > 0 || len(l.thinking) == 0) {
		emitLogprobs(a, l.logprobs)
	}
	if l.images {
		a.Unknown([]byte("images"))
	}
	if l.calls.Kind() == json.Array {
		if err := emitToolCalls(a, l.calls); err != nil {
			return err
		}
	}
	if l.done {
		emitUsage(a, abi.UsagePrompt, l.prompt)
		emitUsage(a, abi.UsageCached, l.cached)
		emitUsage(a, abi.UsageCompletion, l.generated)
		emitFinish(a, l.reason)
		a.Done()
	}
	return nil
}

// emitToolCalls emits the tool calls of a line. Each is complete, but a stream may contain several lines with calls,
// and they have no index, so the number of calls is kept in the state.
func emitToolCalls(a *provider.Answer, calls json.Value) error {
	n := uint32(0)
	if p := a.State(); len(p) == 4 {
		n = binary.LittleEndian.Uint32(p)
	}
	before := n
	var r json.Reader
	r.Reset(calls)
	for list := r.Array(); list.Next(); n++ {
		if err := emitToolCall(a, firstCallKey+int32(n), &r); err != nil {
			return err
		}
	}
	if n != before {
		var state [4]byte
		binary.LittleEndian.PutUint32(state[:], n)
		a.SetState(state[:])
	}
	return nil
}

func emitToolCall(a *provider.Answer, key int32, r *json.Reader) error {
	var id, name []byte
	var arguments json.Value
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "id":
			id = r.Text()
		case "function":
			for o := r.Object(); o.Next(); {
				switch string(r.Name()) {
				case "name":
					name = r.Text()
				case "arguments":
					arguments = r.Raw()
				}
			}
		}
	}
	if len(provider.FitName(name)) == 0 {
		return sdk.Fail(abi.FailBadToolCall, "The provider's response calls a tool without a valid name.")
	}
	a.ToolCall(0, key, provider.FitName(id), name)
	switch arguments.Kind() {
	case json.Object:
		// Emit text instead of JSON, because the gateway rejects JSON with duplicate members, which a model may write.
		a.ToolArguments(0, key, abi.EncodingUTF8, translate.AppendCompact(nil, arguments))
	case json.String:
		a.ToolArguments(0, key, abi.EncodingEscaped, arguments.Inside())
	}
	a.ToolEnd(0, key)
	return nil
}

// maxCount is the upper limit for a token count; higher values are invalid.
const maxCount = 1 << 40

// readCount reads a token count. It returns -1 if it is invalid.
func readCount(r *json.Reader) int64 {
	if n, ok := r.Int(); ok && n >= 0 && n <= maxCount {
		return n
	}
	return -1
}

func emitUsage(a *provider.Answer, kind abi.UsageKind, n int64) {
	if n >= 0 {
		a.Usage(kind, n)
	}
}

// emitFinish reports the finish reason. The server sends stop after tool calls as well, and old servers send none.
func emitFinish(a *provider.Answer, reason []byte) {
	switch string(reason) {
	case "stop", "":
		a.Finish(0, abi.FinishStop, nil)
	case "length":
		a.Finish(0, abi.FinishLength, nil)
	case "load", "unload":
		a.Finish(0, abi.FinishStop, reason) // the request had no prompt
	default:
		a.Finish(0, abi.FinishStop, provider.FitName(reason))
		a.Unknown(reason)
	}
}

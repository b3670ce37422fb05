//go:build !wasip1

package native

import "github.com/sluice-gateway/sluice/sdk/abi"

func (r remote) Log(level abi.LogLevel, message []byte) { r.do("Log", level, message) }
func (r remote) Fail(kind abi.FailKind, code, param, message []byte, retryAfterMs int32) {
	r.do("Fail", kind, code, param, message, retryAfterMs)
}

func (r remote) HostMinor() int32                 { return r.read("HostMinor", nil) }
func (r remote) InputGet(path, dst []byte) int32  { return r.read("InputGet", dst, path) }
func (r remote) InputCount(path []byte) int32     { return r.read("InputCount", nil, path) }
func (r remote) InputText(path, dst []byte) int32 { return r.read("InputText", dst, path) }

func (r remote) BodyGet(path, dst []byte) int32          { return r.read("BodyGet", dst, path) }
func (r remote) BodyCount(path []byte) int32             { return r.read("BodyCount", nil, path) }
func (r remote) BodyIndex(size int32, dst []byte) int32  { return r.read("BodyIndex", dst, size) }
func (r remote) BodySet(path, json []byte) abi.Status    { return r.status("BodySet", path, json) }
func (r remote) BodyDelete(path []byte) abi.Status       { return r.status("BodyDelete", path) }
func (r remote) BodyRename(path, name []byte) abi.Status { return r.status("BodyRename", path, name) }
func (r remote) BodyReplace(path, old, text []byte) abi.Status {
	return r.status("BodyReplace", path, old, text)
}
func (r remote) RequestPath(path []byte) abi.Status { return r.status("RequestPath", path) }
func (r remote) RequestHeader(name, value []byte) abi.Status {
	return r.status("RequestHeader", name, value)
}
func (r remote) RequestWrite(p []byte)                   { r.do("RequestWrite", p) }
func (r remote) RequestString(text []byte) abi.Status    { return r.status("RequestString", text) }
func (r remote) RequestCopy(offset, length int32)        { r.do("RequestCopy", offset, length) }
func (r remote) RequestPart(part int32)                  { r.do("RequestPart", part) }
func (r remote) ToolAlias(alias, name []byte) abi.Status { return r.status("ToolAlias", alias, name) }
func (r remote) Answer(framing abi.Framing, dialect abi.Dialect, options []byte) abi.Status {
	return r.status("Answer", framing, dialect, options)
}
func (r remote) Warn(kind abi.WarnKind, member []byte) { r.do("Warn", kind, member) }

func (r remote) ResponseHeader(name, dst []byte) int32 { return r.read("ResponseHeader", dst, name) }
func (r remote) StateGet(dst []byte) int32             { return r.read("StateGet", dst) }
func (r remote) StateSet(state []byte) abi.Status      { return r.status("StateSet", state) }

func (r remote) NextRequest(method abi.Method, path, body []byte, pauseMs int32) abi.Status {
	return r.status("NextRequest", method, path, body, pauseMs)
}
func (r remote) CancelRequest(method abi.Method, path, body []byte) abi.Status {
	return r.status("CancelRequest", method, path, body)
}

func (r remote) Start(id, model, reasoningFormat []byte) { r.do("Start", id, model, reasoningFormat) }
func (r remote) Text(choice int32, encoding abi.Encoding, s []byte) {
	r.do("Text", choice, encoding, s)
}
func (r remote) Refusal(choice int32, encoding abi.Encoding, s []byte) {
	r.do("Refusal", choice, encoding, s)
}
func (r remote) Reasoning(choice int32, part abi.ReasoningPart, key int32, encoding abi.Encoding, s []byte) {
	r.do("Reasoning", choice, part, key, encoding, s)
}
func (r remote) ToolCall(choice, key int32, id, name []byte) { r.do("ToolCall", choice, key, id, name) }
func (r remote) ToolArguments(choice, key int32, encoding abi.Encoding, s []byte) abi.Status {
	return r.status("ToolArguments", choice, key, encoding, s)
}
func (r remote) ToolEnd(choice, key int32) { r.do("ToolEnd", choice, key) }
func (r remote) Extra(scope abi.Scope, choice, key int32, member, json []byte) abi.Status {
	return r.status("Extra", scope, choice, key, member, json)
}
func (r remote) TextLength(choice int32) int64         { return r.call("TextLength", true, nil, choice) }
func (r remote) Usage(kind abi.UsageKind, value int64) { r.do("Usage", kind, value) }
func (r remote) Finish(choice int32, reason abi.FinishReason, native []byte) {
	r.do("Finish", choice, reason, native)
}
func (r remote) Done(more int32)                       { r.do("Done", more) }
func (r remote) OpenAIEvent(p []byte) abi.Status       { return r.status("OpenAIEvent", p) }
func (r remote) Embedding(index int32, numbers []byte) { r.do("Embedding", index, numbers) }
func (r remote) Rank(index int32, score []byte)        { r.do("Rank", index, score) }
func (r remote) Unknown(what []byte)                   { r.do("Unknown", what) }

func (r remote) Model(json []byte)     { r.do("Model", json) }
func (r remote) More(cursor []byte)    { r.do("More", cursor) }
func (r remote) Candidate(index int32) { r.do("Candidate", index) }
func (r remote) Explain(text []byte)   { r.do("Explain", text) }

func (r remote) Tag(name []byte) abi.Status { return r.status("Tag", name) }
func (r remote) Replace(from, to int32, text []byte) abi.Status {
	return r.status("Replace", from, to, text)
}
func (r remote) Hold(n int32) abi.Status { return r.status("Hold", n) }

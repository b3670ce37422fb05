//go:build !wasip1

package host

import "github.com/sluice-gateway/sluice/sdk/abi"

// Current is the host that the functions of this package call in a native build. Whoever runs a guest natively sets it
// before each call of the guest, and lets only one guest of the process run at a time.
var Current abi.Host

// Log is the import log.
func Log(level abi.LogLevel, message []byte) {
	Current.Log(level, message)
}

// Fail is the import fail.
func Fail(kind abi.FailKind, code []byte, param []byte, message []byte, retryAfterMs int32) {
	Current.Fail(kind, code, param, message, retryAfterMs)
}

// BodyGet is the import body_get.
func BodyGet(path []byte, dst []byte) int32 {
	return Current.BodyGet(path, dst)
}

// BodySet is the import body_set.
func BodySet(path []byte, json []byte) abi.Status {
	return Current.BodySet(path, json)
}

// BodyDelete is the import body_delete.
func BodyDelete(path []byte) abi.Status {
	return Current.BodyDelete(path)
}

// BodyRename is the import body_rename.
func BodyRename(path []byte, name []byte) abi.Status {
	return Current.BodyRename(path, name)
}

// BodyReplace is the import body_replace.
func BodyReplace(path []byte, old []byte, new []byte) abi.Status {
	return Current.BodyReplace(path, old, new)
}

// RequestPath is the import request_path.
func RequestPath(path []byte) abi.Status {
	return Current.RequestPath(path)
}

// RequestHeader is the import request_header.
func RequestHeader(name []byte, value []byte) abi.Status {
	return Current.RequestHeader(name, value)
}

// RequestWrite is the import request_write.
func RequestWrite(p []byte) {
	Current.RequestWrite(p)
}

// RequestCopy is the import request_copy.
func RequestCopy(offset int32, length int32) {
	Current.RequestCopy(offset, length)
}

// ToolAlias is the import tool_alias.
func ToolAlias(alias []byte, name []byte) abi.Status {
	return Current.ToolAlias(alias, name)
}

// Answer is the import answer.
func Answer(framing abi.Framing, dialect abi.Dialect, options []byte) abi.Status {
	return Current.Answer(framing, dialect, options)
}

// Warn is the import warn.
func Warn(kind abi.WarnKind, member []byte) {
	Current.Warn(kind, member)
}

// ResponseHeader is the import response_header.
func ResponseHeader(name []byte, dst []byte) int32 {
	return Current.ResponseHeader(name, dst)
}

// StateGet is the import state_get.
func StateGet(dst []byte) int32 {
	return Current.StateGet(dst)
}

// StateSet is the import state_set.
func StateSet(state []byte) abi.Status {
	return Current.StateSet(state)
}

// Start is the import start.
func Start(id []byte, model []byte, reasoningFormat []byte) {
	Current.Start(id, model, reasoningFormat)
}

// Text is the import text.
func Text(choice int32, encoding abi.Encoding, s []byte) {
	Current.Text(choice, encoding, s)
}

// Refusal is the import refusal.
func Refusal(choice int32, encoding abi.Encoding, s []byte) {
	Current.Refusal(choice, encoding, s)
}

// Reasoning is the import reasoning.
func Reasoning(choice int32, part abi.ReasoningPart, key int32, encoding abi.Encoding, s []byte) {
	Current.Reasoning(choice, part, key, encoding, s)
}

// ToolCall is the import tool_call.
func ToolCall(choice int32, key int32, id []byte, name []byte) {
	Current.ToolCall(choice, key, id, name)
}

// ToolArguments is the import tool_arguments.
func ToolArguments(choice int32, key int32, encoding abi.Encoding, s []byte) abi.Status {
	return Current.ToolArguments(choice, key, encoding, s)
}

// ToolEnd is the import tool_end.
func ToolEnd(choice int32, key int32) {
	Current.ToolEnd(choice, key)
}

// Extra is the import extra.
func Extra(scope abi.Scope, choice int32, key int32, member []byte, json []byte) abi.Status {
	return Current.Extra(scope, choice, key, member, json)
}

// TextLength is the import text_length.
func TextLength(choice int32) int64 {
	return Current.TextLength(choice)
}

// Usage is the import usage.
func Usage(kind abi.UsageKind, value int64) {
	Current.Usage(kind, value)
}

// Finish is the import finish.
func Finish(choice int32, reason abi.FinishReason, native []byte) {
	Current.Finish(choice, reason, native)
}

// Done is the import done.
func Done(more int32) {
	Current.Done(more)
}

// OpenAIEvent is the import openai_event.
func OpenAIEvent(p []byte) abi.Status {
	return Current.OpenAIEvent(p)
}

// Unknown is the import unknown.
func Unknown(what []byte) {
	Current.Unknown(what)
}

// Model is the import model.
func Model(json []byte) {
	Current.Model(json)
}

// More is the import more.
func More(cursor []byte) {
	Current.More(cursor)
}

// Candidate is the import candidate.
func Candidate(index int32) {
	Current.Candidate(index)
}

// Explain is the import explain.
func Explain(text []byte) {
	Current.Explain(text)
}

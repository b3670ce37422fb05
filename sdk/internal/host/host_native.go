//go:build !wasip1

package host

import "github.com/sluice-gateway/sluice/sdk/abi"

// current is the host that the functions of this package call.
var current abi.Host

// Use sets the host for the next call of a guest. The caller must set it before each call and run one guest at a time.
func Use(h abi.Host) { current = h }

// Log is the import log.
func Log(level abi.LogLevel, message []byte) {
	current.Log(level, message)
}

// Fail is the import fail.
func Fail(kind abi.FailKind, code []byte, param []byte, message []byte, retryAfterMs int32) {
	current.Fail(kind, code, param, message, retryAfterMs)
}

// HostMinor is the import host_minor.
func HostMinor() int32 {
	return current.HostMinor()
}

// InputGet is the import input_get.
func InputGet(path []byte, dst []byte) int32 {
	return current.InputGet(path, dst)
}

// InputCount is the import input_count.
func InputCount(path []byte) int32 {
	return current.InputCount(path)
}

// InputText is the import input_text.
func InputText(path []byte, dst []byte) int32 {
	return current.InputText(path, dst)
}

// BodyGet is the import body_get.
func BodyGet(path []byte, dst []byte) int32 {
	return current.BodyGet(path, dst)
}

// BodyCount is the import body_count.
func BodyCount(path []byte) int32 {
	return current.BodyCount(path)
}

// BodyIndex is the import body_index.
func BodyIndex(size int32, dst []byte) int32 {
	return current.BodyIndex(size, dst)
}

// BodySet is the import body_set.
func BodySet(path []byte, json []byte) abi.Status {
	return current.BodySet(path, json)
}

// BodyDelete is the import body_delete.
func BodyDelete(path []byte) abi.Status {
	return current.BodyDelete(path)
}

// BodyRename is the import body_rename.
func BodyRename(path []byte, name []byte) abi.Status {
	return current.BodyRename(path, name)
}

// BodyReplace is the import body_replace.
func BodyReplace(path []byte, old []byte, new []byte) abi.Status {
	return current.BodyReplace(path, old, new)
}

// RequestPath is the import request_path.
func RequestPath(path []byte) abi.Status {
	return current.RequestPath(path)
}

// RequestHeader is the import request_header.
func RequestHeader(name []byte, value []byte) abi.Status {
	return current.RequestHeader(name, value)
}

// RequestWrite is the import request_write.
func RequestWrite(p []byte) {
	current.RequestWrite(p)
}

// RequestString is the import request_string.
func RequestString(text []byte) abi.Status {
	return current.RequestString(text)
}

// RequestCopy is the import request_copy.
func RequestCopy(offset int32, length int32) {
	current.RequestCopy(offset, length)
}

// RequestPart is the import request_part.
func RequestPart(part int32) {
	current.RequestPart(part)
}

// ToolAlias is the import tool_alias.
func ToolAlias(alias []byte, name []byte) abi.Status {
	return current.ToolAlias(alias, name)
}

// Answer is the import answer.
func Answer(framing abi.Framing, dialect abi.Dialect, options []byte) abi.Status {
	return current.Answer(framing, dialect, options)
}

// Warn is the import warn.
func Warn(kind abi.WarnKind, member []byte) {
	current.Warn(kind, member)
}

// ResponseHeader is the import response_header.
func ResponseHeader(name []byte, dst []byte) int32 {
	return current.ResponseHeader(name, dst)
}

// StateGet is the import state_get.
func StateGet(dst []byte) int32 {
	return current.StateGet(dst)
}

// StateSet is the import state_set.
func StateSet(state []byte) abi.Status {
	return current.StateSet(state)
}

// NextRequest is the import next_request.
func NextRequest(method abi.Method, path, body []byte, pauseMs int32) abi.Status {
	return current.NextRequest(method, path, body, pauseMs)
}

// CancelRequest is the import cancel_request.
func CancelRequest(method abi.Method, path, body []byte) abi.Status {
	return current.CancelRequest(method, path, body)
}

// Start is the import start.
func Start(id []byte, model []byte, reasoningFormat []byte) {
	current.Start(id, model, reasoningFormat)
}

// Text is the import text.
func Text(choice int32, encoding abi.Encoding, s []byte) {
	current.Text(choice, encoding, s)
}

// Refusal is the import refusal.
func Refusal(choice int32, encoding abi.Encoding, s []byte) {
	current.Refusal(choice, encoding, s)
}

// Reasoning is the import reasoning.
func Reasoning(choice int32, part abi.ReasoningPart, key int32, encoding abi.Encoding, s []byte) {
	current.Reasoning(choice, part, key, encoding, s)
}

// ToolCall is the import tool_call.
func ToolCall(choice int32, key int32, id []byte, name []byte) {
	current.ToolCall(choice, key, id, name)
}

// ToolArguments is the import tool_arguments.
func ToolArguments(choice int32, key int32, encoding abi.Encoding, s []byte) abi.Status {
	return current.ToolArguments(choice, key, encoding, s)
}

// ToolEnd is the import tool_end.
func ToolEnd(choice int32, key int32) {
	current.ToolEnd(choice, key)
}

// Extra is the import extra.
func Extra(scope abi.Scope, choice int32, key int32, member []byte, json []byte) abi.Status {
	return current.Extra(scope, choice, key, member, json)
}

// TextLength is the import text_length.
func TextLength(choice int32) int64 {
	return current.TextLength(choice)
}

// Usage is the import usage.
func Usage(kind abi.UsageKind, value int64) {
	current.Usage(kind, value)
}

// Finish is the import finish.
func Finish(choice int32, reason abi.FinishReason, native []byte) {
	current.Finish(choice, reason, native)
}

// Done is the import done.
func Done(more int32) {
	current.Done(more)
}

// OpenAIEvent is the import openai_event.
func OpenAIEvent(p []byte) abi.Status {
	return current.OpenAIEvent(p)
}

// Embedding is the import embedding.
func Embedding(index int32, numbers []byte) {
	current.Embedding(index, numbers)
}

// Rank is the import rank.
func Rank(index int32, score []byte) {
	current.Rank(index, score)
}

// Unknown is the import unknown.
func Unknown(what []byte) {
	current.Unknown(what)
}

// Model is the import model.
func Model(json []byte) {
	current.Model(json)
}

// More is the import more.
func More(cursor []byte) {
	current.More(cursor)
}

// Candidate is the import candidate.
func Candidate(index int32) {
	current.Candidate(index)
}

// Explain is the import explain.
func Explain(text []byte) {
	current.Explain(text)
}

// Tag is the import tag.
func Tag(name []byte) abi.Status {
	return current.Tag(name)
}

// Replace is the import replace.
func Replace(from int32, to int32, text []byte) abi.Status {
	return current.Replace(from, to, text)
}

// Hold is the import hold.
func Hold(n int32) abi.Status {
	return current.Hold(n)
}

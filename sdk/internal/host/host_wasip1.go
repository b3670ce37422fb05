package host

import (
	"unsafe"

	"github.com/sluice-gateway/sluice/sdk/abi"
)

// view converts b to a string without copying it. Parameters of type string are passed to an import as address and
// length.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// Use panics: a module's host is always the gateway.
func Use(abi.Host) { panic("sdk: a module cannot choose its host") }

//go:wasmimport sluice log
//go:noescape
func importLog(level int32, message string)

// Log is the import log.
func Log(level abi.LogLevel, message []byte) {
	importLog(int32(level), view(message))
}

//go:wasmimport sluice fail
//go:noescape
func importFail(kind int32, code string, param string, message string, retryAfterMs int32)

// Fail is the import fail.
func Fail(kind abi.FailKind, code []byte, param []byte, message []byte, retryAfterMs int32) {
	importFail(int32(kind), view(code), view(param), view(message), retryAfterMs)
}

//go:wasmimport sluice host_minor
func importHostMinor() int32

// HostMinor is the import host_minor.
func HostMinor() int32 {
	return importHostMinor()
}

//go:wasmimport sluice input_get
//go:noescape
func importInputGet(path string, dst unsafe.Pointer, capacity uint32) int32

// InputGet is the import input_get.
func InputGet(path []byte, dst []byte) int32 {
	return importInputGet(view(path), Address(dst), uint32(len(dst)))
}

//go:wasmimport sluice input_count
//go:noescape
func importInputCount(path string) int32

// InputCount is the import input_count.
func InputCount(path []byte) int32 {
	return importInputCount(view(path))
}

//go:wasmimport sluice input_text
//go:noescape
func importInputText(path string, dst unsafe.Pointer, capacity uint32) int32

// InputText is the import input_text.
func InputText(path []byte, dst []byte) int32 {
	return importInputText(view(path), Address(dst), uint32(len(dst)))
}

//go:wasmimport sluice body_get
//go:noescape
func importBodyGet(path string, dst unsafe.Pointer, capacity uint32) int32

// BodyGet is the import body_get.
func BodyGet(path []byte, dst []byte) int32 {
	return importBodyGet(view(path), Address(dst), uint32(len(dst)))
}

//go:wasmimport sluice body_count
//go:noescape
func importBodyCount(path string) int32

// BodyCount is the import body_count.
func BodyCount(path []byte) int32 {
	return importBodyCount(view(path))
}

//go:wasmimport sluice body_index
//go:noescape
func importBodyIndex(size int32, dst unsafe.Pointer, capacity uint32) int32

// BodyIndex is the import body_index.
func BodyIndex(size int32, dst []byte) int32 {
	return importBodyIndex(size, Address(dst), uint32(len(dst)))
}

//go:wasmimport sluice body_set
//go:noescape
func importBodySet(path string, json string) int32

// BodySet is the import body_set.
func BodySet(path []byte, json []byte) abi.Status {
	return abi.Status(importBodySet(view(path), view(json)))
}

//go:wasmimport sluice body_delete
//go:noescape
func importBodyDelete(path string) int32

// BodyDelete is the import body_delete.
func BodyDelete(path []byte) abi.Status {
	return abi.Status(importBodyDelete(view(path)))
}

//go:wasmimport sluice body_rename
//go:noescape
func importBodyRename(path string, name string) int32

// BodyRename is the import body_rename.
func BodyRename(path []byte, name []byte) abi.Status {
	return abi.Status(importBodyRename(view(path), view(name)))
}

//go:wasmimport sluice body_replace
//go:noescape
func importBodyReplace(path string, old string, new string) int32

// BodyReplace is the import body_replace.
func BodyReplace(path []byte, old []byte, new []byte) abi.Status {
	return abi.Status(importBodyReplace(view(path), view(old), view(new)))
}

//go:wasmimport sluice request_path
//go:noescape
func importRequestPath(path string) int32

// RequestPath is the import request_path.
func RequestPath(path []byte) abi.Status {
	return abi.Status(importRequestPath(view(path)))
}

//go:wasmimport sluice request_header
//go:noescape
func importRequestHeader(name string, value string) int32

// RequestHeader is the import request_header.
func RequestHeader(name []byte, value []byte) abi.Status {
	return abi.Status(importRequestHeader(view(name), view(value)))
}

//go:wasmimport sluice request_write
//go:noescape
func importRequestWrite(p string)

// RequestWrite is the import request_write.
func RequestWrite(p []byte) {
	importRequestWrite(view(p))
}

//go:wasmimport sluice request_string
//go:noescape
func importRequestString(text string) int32

// RequestString is the import request_string.
func RequestString(text []byte) abi.Status {
	return abi.Status(importRequestString(view(text)))
}

//go:wasmimport sluice request_copy
//go:noescape
func importRequestCopy(offset int32, length int32)

// RequestCopy is the import request_copy.
func RequestCopy(offset int32, length int32) {
	importRequestCopy(offset, length)
}

//go:wasmimport sluice request_part
//go:noescape
func importRequestPart(part int32)

// RequestPart is the import request_part.
func RequestPart(part int32) {
	importRequestPart(part)
}

//go:wasmimport sluice tool_alias
//go:noescape
func importToolAlias(alias string, name string) int32

// ToolAlias is the import tool_alias.
func ToolAlias(alias []byte, name []byte) abi.Status {
	return abi.Status(importToolAlias(view(alias), view(name)))
}

//go:wasmimport sluice answer
//go:noescape
func importAnswer(framing int32, dialect int32, options string) int32

// Answer is the import answer.
func Answer(framing abi.Framing, dialect abi.Dialect, options []byte) abi.Status {
	return abi.Status(importAnswer(int32(framing), int32(dialect), view(options)))
}

//go:wasmimport sluice warn
//go:noescape
func importWarn(kind int32, member string)

// Warn is the import warn.
func Warn(kind abi.WarnKind, member []byte) {
	importWarn(int32(kind), view(member))
}

//go:wasmimport sluice response_header
//go:noescape
func importResponseHeader(name string, dst unsafe.Pointer, capacity uint32) int32

// ResponseHeader is the import response_header.
func ResponseHeader(name []byte, dst []byte) int32 {
	return importResponseHeader(view(name), Address(dst), uint32(len(dst)))
}

//go:wasmimport sluice state_get
//go:noescape
func importStateGet(dst unsafe.Pointer, capacity uint32) int32

// StateGet is the import state_get.
func StateGet(dst []byte) int32 {
	return importStateGet(Address(dst), uint32(len(dst)))
}

//go:wasmimport sluice state_set
//go:noescape
func importStateSet(state string) int32

// StateSet is the import state_set.
func StateSet(state []byte) abi.Status {
	return abi.Status(importStateSet(view(state)))
}

//go:wasmimport sluice next_request
//go:noescape
func importNextRequest(method int32, path, body string, pauseMs int32) int32

// NextRequest is the import next_request.
func NextRequest(method abi.Method, path, body []byte, pauseMs int32) abi.Status {
	return abi.Status(importNextRequest(int32(method), view(path), view(body), pauseMs))
}

//go:wasmimport sluice cancel_request
//go:noescape
func importCancelRequest(method int32, path, body string) int32

// CancelRequest is the import cancel_request.
func CancelRequest(method abi.Method, path, body []byte) abi.Status {
	return abi.Status(importCancelRequest(int32(method), view(path), view(body)))
}

//go:wasmimport sluice start
//go:noescape
func importStart(id string, model string, reasoningFormat string)

// Start is the import start.
func Start(id []byte, model []byte, reasoningFormat []byte) {
	importStart(view(id), view(model), view(reasoningFormat))
}

//go:wasmimport sluice text
//go:noescape
func importText(choice int32, encoding int32, s string)

// Text is the import text.
func Text(choice int32, encoding abi.Encoding, s []byte) {
	importText(choice, int32(encoding), view(s))
}

//go:wasmimport sluice refusal
//go:noescape
func importRefusal(choice int32, encoding int32, s string)

// Refusal is the import refusal.
func Refusal(choice int32, encoding abi.Encoding, s []byte) {
	importRefusal(choice, int32(encoding), view(s))
}

//go:wasmimport sluice reasoning
//go:noescape
func importReasoning(choice int32, part int32, key int32, encoding int32, s string)

// Reasoning is the import reasoning.
func Reasoning(choice int32, part abi.ReasoningPart, key int32, encoding abi.Encoding, s []byte) {
	importReasoning(choice, int32(part), key, int32(encoding), view(s))
}

//go:wasmimport sluice tool_call
//go:noescape
func importToolCall(choice int32, key int32, id string, name string)

// ToolCall is the import tool_call.
func ToolCall(choice int32, key int32, id []byte, name []byte) {
	importToolCall(choice, key, view(id), view(name))
}

//go:wasmimport sluice tool_arguments
//go:noescape
func importToolArguments(choice int32, key int32, encoding int32, s string) int32

// ToolArguments is the import tool_arguments.
func ToolArguments(choice int32, key int32, encoding abi.Encoding, s []byte) abi.Status {
	return abi.Status(importToolArguments(choice, key, int32(encoding), view(s)))
}

//go:wasmimport sluice tool_end
//go:noescape
func importToolEnd(choice int32, key int32)

// ToolEnd is the import tool_end.
func ToolEnd(choice int32, key int32) {
	importToolEnd(choice, key)
}

//go:wasmimport sluice extra
//go:noescape
func importExtra(scope int32, choice int32, key int32, member string, json string) int32

// Extra is the import extra.
func Extra(scope abi.Scope, choice int32, key int32, member []byte, json []byte) abi.Status {
	return abi.Status(importExtra(int32(scope), choice, key, view(member), view(json)))
}

//go:wasmimport sluice text_length
//go:noescape
func importTextLength(choice int32) int64

// TextLength is the import text_length.
func TextLength(choice int32) int64 {
	return importTextLength(choice)
}

//go:wasmimport sluice usage
//go:noescape
func importUsage(kind int32, value int64)

// Usage is the import usage.
func Usage(kind abi.UsageKind, value int64) {
	importUsage(int32(kind), value)
}

//go:wasmimport sluice finish
//go:noescape
func importFinish(choice int32, reason int32, native string)

// Finish is the import finish.
func Finish(choice int32, reason abi.FinishReason, native []byte) {
	importFinish(choice, int32(reason), view(native))
}

//go:wasmimport sluice done
//go:noescape
func importDone(more int32)

// Done is the import done.
func Done(more int32) {
	importDone(more)
}

//go:wasmimport sluice openai_event
//go:noescape
func importOpenAIEvent(p string) int32

// OpenAIEvent is the import openai_event.
func OpenAIEvent(p []byte) abi.Status {
	return abi.Status(importOpenAIEvent(view(p)))
}

//go:wasmimport sluice embedding
//go:noescape
func importEmbedding(index int32, numbers string)

// Embedding is the import embedding.
func Embedding(index int32, numbers []byte) {
	importEmbedding(index, view(numbers))
}

//go:wasmimport sluice rank
//go:noescape
func importRank(index int32, score string)

// Rank is the import rank.
func Rank(index int32, score []byte) {
	importRank(index, view(score))
}

//go:wasmimport sluice unknown
//go:noescape
func importUnknown(what string)

// Unknown is the import unknown.
func Unknown(what []byte) {
	importUnknown(view(what))
}

//go:wasmimport sluice model
//go:noescape
func importModel(json string)

// Model is the import model.
func Model(json []byte) {
	importModel(view(json))
}

//go:wasmimport sluice more
//go:noescape
func importMore(cursor string)

// More is the import more.
func More(cursor []byte) {
	importMore(view(cursor))
}

//go:wasmimport sluice candidate
//go:noescape
func importCandidate(index int32)

// Candidate is the import candidate.
func Candidate(index int32) {
	importCandidate(index)
}

//go:wasmimport sluice explain
//go:noescape
func importExplain(text string)

// Explain is the import explain.
func Explain(text []byte) {
	importExplain(view(text))
}

//go:wasmimport sluice tag
//go:noescape
func importTag(name string) int32

// Tag is the import tag.
func Tag(name []byte) abi.Status {
	return abi.Status(importTag(view(name)))
}

//go:wasmimport sluice replace
//go:noescape
func importReplace(from int32, to int32, text string) int32

// Replace is the import replace.
func Replace(from int32, to int32, text []byte) abi.Status {
	return abi.Status(importReplace(from, to, view(text)))
}

//go:wasmimport sluice hold
//go:noescape
func importHold(n int32) int32

// Hold is the import hold.
func Hold(n int32) abi.Status {
	return abi.Status(importHold(n))
}

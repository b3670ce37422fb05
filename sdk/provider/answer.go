package provider

import (
	"errors"
	"unicode/utf8"

	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/internal/guest"
	"github.com/sluice-gateway/sluice/sdk/internal/host"
)

// Event is an event of the upstream's stream: name and data of a server-sent event, a line of newline-delimited JSON,
// or event type and payload of an AWS event stream frame. The slices are valid until the call returns.
type Event struct {
	Kind abi.EventKind
	Name []byte
	Data []byte
}

// Answer receives the contents of the upstream's response from a provider. Reports take effect when the call returns
// nil; the reports of a call that fails are discarded.
//
// Parameters that several methods share:
//
//   - choice is the index of the choice, from 0.
//   - key identifies a block within a choice by the upstream's own number. The reasoning blocks and the tool calls of a
//     choice share one numbering. The gateway derives the indexes of the chat completions format from it.
//   - encoding is the encoding of the text: abi.EncodingUTF8; abi.EncodingEscaped for the bytes between the quotes of a
//     JSON string, as returned by json.Reader.Inside; abi.EncodingJSON for a JSON value whose compact form is the text.
//     Add abi.EncodingDefault to use the text only if nothing else is reported for the same key.
type Answer struct {
	store []byte // values fetched from the host during the call
}

// State returns the state that SetState stored for this attempt, empty if there is none. It is valid until the call
// returns.
func (a *Answer) State() []byte {
	p, _ := guest.Fetch(&a.store, host.StateGet)
	return p
}

// SetState stores state for later calls of this attempt, up to abi.MaxState bytes. Like all reports it takes effect
// when the call succeeds. It returns false if the state is too large.
func (a *Answer) SetState(state []byte) bool { return host.StateSet(state) == abi.StatusOK }

// NextRequest asks the gateway for a further request of this attempt after a pause of pauseMs milliseconds, abi.MinPause to
// abi.MaxPause. Its response is passed to the provider like that of the first request, whose headers it has. The path is
// below the provider's base URL; body is JSON, or nil. It is for the end of a response (Whole and End of a provider) that
// is not complete. It returns an error if the gateway refuses the request: abi.MaxRequests are the most for an attempt.
func (a *Answer) NextRequest(method abi.Method, path string, body []byte, pauseMs int32) error {
	return accepted(host.NextRequest(method, host.Bytes(path), body, pauseMs), errNextRefused)
}

// CancelRequest names the request that the gateway sends if the client leaves, or a timeout ends the attempt, before the
// response is complete. An empty path takes it back.
func (a *Answer) CancelRequest(method abi.Method, path string, body []byte) error {
	return accepted(host.CancelRequest(method, host.Bytes(path), body), errCancelRefused)
}

var (
	errNextRefused   = errors.New("the gateway refused the next request: its path, method, body or pause, or it is one too many")
	errCancelRefused = errors.New("the gateway refused the request to cancel: its path, method or body")
)

func accepted(s abi.Status, err error) error {
	if s == abi.StatusOK {
		return nil
	}
	return err
}

// Header returns a header of the upstream's response, or nil if it is absent or plugins may not read it. It is valid
// until the call returns.
func (a *Answer) Header(name string) []byte {
	p, _ := guest.Fetch(&a.store, func(dst []byte) int32 { return host.ResponseHeader(host.Bytes(name), dst) })
	return p
}

// Start reports the ID and the model of the response, and the name of its reasoning format. The gateway uses a default
// for each that is empty.
func (a *Answer) Start(id, model []byte, reasoningFormat string) {
	host.Start(id, model, host.Bytes(reasoningFormat))
}

// Text appends to the content of a choice.
func (a *Answer) Text(choice int32, encoding abi.Encoding, s []byte) { host.Text(choice, encoding, s) }

// TextLength returns the number of code points in the choice's content so far.
func (a *Answer) TextLength(choice int32) int64 { return host.TextLength(choice) }

// Refusal appends to the refusal of a choice.
func (a *Answer) Refusal(choice int32, encoding abi.Encoding, s []byte) {
	host.Refusal(choice, encoding, s)
}

// Reasoning appends to one part of a reasoning block.
func (a *Answer) Reasoning(choice int32, part abi.ReasoningPart, key int32, encoding abi.Encoding, s []byte) {
	host.Reasoning(choice, part, key, encoding, s)
}

// ToolCall opens a tool call. If the ID is empty the gateway generates one.
func (a *Answer) ToolCall(choice, key int32, id, name []byte) { host.ToolCall(choice, key, id, name) }

// ToolArguments appends to the arguments of a tool call. It returns false if no such call was opened.
func (a *Answer) ToolArguments(choice, key int32, encoding abi.Encoding, s []byte) bool {
	return host.ToolArguments(choice, key, encoding, s) == abi.StatusOK
}

// ToolEnd completes the arguments of a tool call. They become {} if there were none.
func (a *Answer) ToolEnd(choice, key int32) { host.ToolEnd(choice, key) }

// Extra adds a member for which Answer has no method to the response, a choice, its message, the tool call with this
// key, or the usage. value is JSON. It returns false if the name is reserved or the value is not JSON.
func (a *Answer) Extra(scope abi.Scope, choice, key int32, member string, value []byte) bool {
	return host.Extra(scope, choice, key, host.Bytes(member), value) == abi.StatusOK
}

// Usage reports a token count. The last value of a kind wins.
func (a *Answer) Usage(kind abi.UsageKind, tokens int64) { host.Usage(kind, tokens) }

// Finish reports why a choice ended. native is the upstream's own reason if it is more specific than reason, otherwise
// empty. A choice that contains tool calls and finishes with abi.FinishStop is reported to the client as tool_calls.
func (a *Answer) Finish(choice int32, reason abi.FinishReason, native []byte) {
	host.Finish(choice, reason, native)
}

// Done completes the response. The rest of the upstream's body is not read.
func (a *Answer) Done() { host.Done(abi.DoneNow) }

// DoneAtEnd completes the response when the upstream's body ends cleanly. Until then the plugin may still report usage,
// extra members and a failure.
func (a *Answer) DoneAtEnd() { host.Done(abi.DoneAtEnd) }

// OpenAIEvent passes a chunk or a non-streaming response in the chat completions format to the gateway. It returns
// false if the gateway cannot parse it.
func (a *Answer) OpenAIEvent(p []byte) bool { return host.OpenAIEvent(p) == abi.StatusOK }

// Embedding reports the embedding of an input of an embeddings request, by the input's index and in the order of the
// inputs. numbers is a JSON array of numbers, preferably a slice of the upstream's response (json.Reader.Raw), so that
// the plugin need not parse the numbers.
func (a *Answer) Embedding(index int32, numbers []byte) { host.Embedding(index, numbers) }

// Rank reports the next-best document of a rerank request: its index in the request, and its score as a JSON number.
func (a *Answer) Rank(index int32, score []byte) { host.Rank(index, score) }

// Unknown reports that the plugin skipped something that it does not know, such as a new type of event. It is counted,
// and logged once. what is a name such as the event's type, never text of the response.
func (a *Answer) Unknown(what []byte) { host.Unknown(what) }

// FitName returns name if Answer's methods accept it as an ID or a model, otherwise nil. A name must be valid UTF-8
// without control characters and at most abi.MaxName bytes long.
func FitName(name []byte) []byte {
	if len(name) > abi.MaxName || !utf8.Valid(name) {
		return nil
	}
	for _, c := range name {
		if c < ' ' || c == 0x7f {
			return nil
		}
	}
	return name
}

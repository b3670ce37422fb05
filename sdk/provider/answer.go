package provider

import (
	"unicode/utf8"

	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/internal/guest"
	"github.com/sluice-gateway/sluice/sdk/internal/host"
)

// Event is one event of the upstream's stream: of server-sent events the name and the data, of newline-delimited JSON
// a line, of an AWS event stream the event type and the payload. The slices are valid during the call.
type Event struct {
	Kind abi.EventKind
	Name []byte
	Data []byte
}

// Answer is where a provider says what the upstream answered. Nothing is sent before the call returns nil; a call that
// fails has said nothing.
//
// choice counts the choices from 0. key is whatever number the upstream gives to its blocks, one numbering for the
// reasoning and the tool calls of a choice: the gateway makes the convention's indexes of it. encoding says how the
// bytes stand for text: abi.EncodingUTF8, abi.EncodingEscaped for the inside of a JSON string as it came (what
// json.Reader.Inside returns), or abi.EncodingJSON for a JSON value whose compact form is the text; each plus
// abi.EncodingDefault to be used only if nothing else comes for the same key.
type Answer struct {
	store []byte // what was fetched from the host during the call
}

// State is what SetState kept last for this attempt, valid during the call; empty if nothing.
func (a *Answer) State() []byte {
	p, _ := guest.Fetch(&a.store, host.StateGet)
	return p
}

// SetState keeps up to abi.MaxState bytes for the calls that follow in this attempt. It comes into force with the rest
// of the call. It returns false if the state is too large.
func (a *Answer) SetState(state []byte) bool { return host.StateSet(state) == abi.StatusOK }

// Header is a header of the upstream's answer, nil if it is absent or may not be read; valid during the call.
func (a *Answer) Header(name string) []byte {
	p, _ := guest.Fetch(&a.store, func(dst []byte) int32 { return host.ResponseHeader(host.Bytes(name), dst) })
	return p
}

// Start says the answer's id, the model that answers, and the name of the format that its reasoning has. Each may be
// empty: the gateway makes up what is missing.
func (a *Answer) Start(id, model []byte, reasoningFormat string) {
	host.Start(id, model, host.Bytes(reasoningFormat))
}

// Text appends to the content of a choice.
func (a *Answer) Text(choice int32, encoding abi.Encoding, s []byte) { host.Text(choice, encoding, s) }

// TextLength is how many code points of content the choice has.
func (a *Answer) TextLength(choice int32) int64 { return host.TextLength(choice) }

// Refusal appends to the refusal of a choice.
func (a *Answer) Refusal(choice int32, encoding abi.Encoding, s []byte) {
	host.Refusal(choice, encoding, s)
}

// Reasoning appends to one part of a reasoning block.
func (a *Answer) Reasoning(choice int32, part abi.ReasoningPart, key int32, encoding abi.Encoding, s []byte) {
	host.Reasoning(choice, part, key, encoding, s)
}

// ToolCall opens a tool call. Where the id is empty the gateway makes one up.
func (a *Answer) ToolCall(choice, key int32, id, name []byte) { host.ToolCall(choice, key, id, name) }

// ToolArguments appends to the arguments of a tool call. It returns false if no such call was opened.
func (a *Answer) ToolArguments(choice, key int32, encoding abi.Encoding, s []byte) bool {
	return host.ToolArguments(choice, key, encoding, s) == abi.StatusOK
}

// ToolEnd says that a tool call has all of its arguments. A call without any gets {}.
func (a *Answer) ToolEnd(choice, key int32) { host.ToolEnd(choice, key) }

// Extra adds a member that the convention has no call for: to the answer, a choice, its message, the tool call with
// this key, or the usage. It returns false if the member is reserved or the value is not JSON.
func (a *Answer) Extra(scope abi.Scope, choice, key int32, member string, value []byte) bool {
	return host.Extra(scope, choice, key, host.Bytes(member), value) == abi.StatusOK
}

// Usage says a count of tokens. The last one of a kind counts.
func (a *Answer) Usage(kind abi.UsageKind, tokens int64) { host.Usage(kind, tokens) }

// Finish says why a choice ended. native is the upstream's own word where it says more than the reason, else "".
// After abi.FinishStop a choice with tool calls finishes with tool_calls all the same.
func (a *Answer) Finish(choice int32, reason abi.FinishReason, native []byte) {
	host.Finish(choice, reason, native)
}

// Done says that the answer is complete. Whatever the upstream sends from then on is not read.
func (a *Answer) Done() { host.Done(abi.DoneNow) }

// DoneAtEnd says that the answer is complete as soon as the upstream's body ends cleanly. Until then usage, extra
// members and a failure may follow.
func (a *Answer) DoneAtEnd() { host.Done(abi.DoneAtEnd) }

// OpenAIEvent hands the gateway a chunk or a whole answer in the convention's own form. It returns false if that could
// not be read.
func (a *Answer) OpenAIEvent(p []byte) bool { return host.OpenAIEvent(p) == abi.StatusOK }

// Unknown says that something was skipped which the plugin does not know, such as an event of a new type. It is
// counted, and logged once. what is a name, never content.
func (a *Answer) Unknown(what []byte) { host.Unknown(what) }

// FitName is a name that an upstream gave, an id or a model, as the calls above take it; nil if they do not: it is longer
// than abi.MaxName, not UTF-8, or has control characters.
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

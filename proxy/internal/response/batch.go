package response

import (
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// EventKind is what an Event is.
type EventKind uint8

// The kinds of events. Each says what A, B and C hold.
const (
	EventStart         EventKind = iota + 1 // A id, B model, C reasoning format
	EventText                               // A text
	EventRefusal                            // A text
	EventReasoning                          // A text; Key, Code = abi.ReasoningPart
	EventToolCall                           // A id, B name; Key
	EventToolArguments                      // A text; Key
	EventToolEnd                            // Key
	EventExtra                              // A member, B JSON value; Key, Code = abi.Scope
	EventUsage                              // Value; Code = abi.UsageKind
	EventFinish                             // A native reason; Code = abi.FinishReason
	EventDone                               // Code = abi.DoneNow or abi.DoneAtEnd
	EventFrame                              // A name, B data
	EventEmbedding                          // Key index, A numbers
	EventRank                               // Key index, A score
)

// Span is a range of a Batch's bytes.
type Span struct{ Off, Len uint32 }

// Event is one thing that a provider sent. It holds no pointers: its texts are spans of the Batch it is in.
type Event struct {
	Kind     EventKind
	Code     uint8
	Encoding abi.Encoding
	Choice   int32
	Key      int32
	A, B, C  Span
	Value    int64
}

// hasContent reports whether the event would add to a choice's output.
func (ev *Event) hasContent() bool {
	switch ev.Kind {
	case EventText, EventRefusal, EventReasoning, EventToolArguments:
		return ev.A.Len > 0
	case EventToolCall:
		return true
	}
	return false
}

// Batch is the events of one plugin call, or of one chunk that the host read natively, in order. A call takes effect
// when it returns 0, so its events wait here until Writer.Apply applies them, or Reset drops them.
//
// A Batch copies what it is given and may be used again after Reset, without allocating once it has grown. It checks
// nothing: Writer.Apply does. It is not safe for concurrent use.
type Batch struct {
	Events []Event
	arena  []byte
	fail   *apierror.Error
}

// Reset drops all events and keeps the memory, unless it has grown past what an ordinary event needs.
func (b *Batch) Reset() {
	const keep = 64 << 10
	if cap(b.arena) > keep {
		b.arena = nil
	}
	if cap(b.Events) > keep/64 {
		b.Events = nil
	}
	b.Events, b.arena, b.fail = b.Events[:0], b.arena[:0], nil
}

// Bytes returns the bytes of a span of one of the batch's events. They are valid until the next Reset or append.
func (b *Batch) Bytes(s Span) []byte { return b.arena[s.Off : s.Off+s.Len : s.Off+s.Len] }

// Size is the number of bytes that the events hold.
func (b *Batch) Size() int { return len(b.arena) }

// Failure is what Fail was given last, nil if nothing.
func (b *Batch) Failure() *apierror.Error { return b.fail }

func (b *Batch) put(p []byte) Span {
	off := len(b.arena)
	b.arena = append(b.arena, p...)
	return Span{uint32(off), uint32(len(p))}
}

// Start gives the response's id and model, and the format of its reasoning; each may be empty.
func (b *Batch) Start(id, model, reasoningFormat []byte) {
	b.Events = append(b.Events, Event{Kind: EventStart, A: b.put(id), B: b.put(model), C: b.put(reasoningFormat)})
}

// Text appends to a choice's content.
func (b *Batch) Text(choice int32, enc abi.Encoding, s []byte) {
	b.Events = append(b.Events, Event{Kind: EventText, Choice: choice, Encoding: enc, A: b.put(s)})
}

// Refusal appends to a choice's refusal.
func (b *Batch) Refusal(choice int32, enc abi.Encoding, s []byte) {
	b.Events = append(b.Events, Event{Kind: EventRefusal, Choice: choice, Encoding: enc, A: b.put(s)})
}

// Reasoning appends to a part of the reasoning block key.
func (b *Batch) Reasoning(choice int32, part abi.ReasoningPart, key int32, enc abi.Encoding, s []byte) {
	b.Events = append(b.Events, Event{Kind: EventReasoning, Code: uint8(part), Choice: choice, Key: key, Encoding: enc, A: b.put(s)})
}

// ToolCall opens a tool call. key is the provider's number of the block; with an empty id the writer generates one.
func (b *Batch) ToolCall(choice, key int32, id, name []byte) {
	b.Events = append(b.Events, Event{Kind: EventToolCall, Choice: choice, Key: key, A: b.put(id), B: b.put(name)})
}

// ToolArguments appends to a tool call's arguments.
func (b *Batch) ToolArguments(choice, key int32, enc abi.Encoding, s []byte) {
	b.Events = append(b.Events, Event{Kind: EventToolArguments, Choice: choice, Key: key, Encoding: enc, A: b.put(s)})
}

// ToolEnd says that a tool call has all of its arguments.
func (b *Batch) ToolEnd(choice, key int32) {
	b.Events = append(b.Events, Event{Kind: EventToolEnd, Choice: choice, Key: key})
}

// Extra adds a member that the chat completions format does not name to an object of the response.
func (b *Batch) Extra(scope abi.Scope, choice, key int32, member, json []byte) {
	b.Events = append(b.Events, Event{Kind: EventExtra, Code: uint8(scope), Choice: choice, Key: key, A: b.put(member), B: b.put(json)})
}

// Usage gives a token count; the last one of a kind wins.
func (b *Batch) Usage(kind abi.UsageKind, value int64) {
	b.Events = append(b.Events, Event{Kind: EventUsage, Code: uint8(kind), Value: value})
}

// Finish records why a choice ended. native is the provider's own word where it differs from that of the OpenAI API.
func (b *Batch) Finish(choice int32, reason abi.FinishReason, native []byte) {
	b.Events = append(b.Events, Event{Kind: EventFinish, Code: uint8(reason), Choice: choice, A: b.put(native)})
}

// Done says that the response is complete, now (abi.DoneNow) or at a clean end of the body (abi.DoneAtEnd).
func (b *Batch) Done(more int32) {
	b.Events = append(b.Events, Event{Kind: EventDone, Code: uint8(more)})
}

// Frame passes on an event of a provider that speaks the client's API: its name and data as they came, or the body of a
// non-streaming response. It stands after the events that say what it means.
func (b *Batch) Frame(name, data []byte) {
	b.Events = append(b.Events, Event{Kind: EventFrame, A: b.put(name), B: b.put(data)})
}

// Embedding is the vector of the input with this index: a JSON array of numbers, or empty where a frame of the batch has it.
func (b *Batch) Embedding(index int32, numbers []byte) {
	b.Events = append(b.Events, Event{Kind: EventEmbedding, Key: index, A: b.put(numbers)})
}

// Rank is the next one of the ranked documents, by its index in the request, with its score: a JSON number, or empty where a
// frame of the batch has it.
func (b *Batch) Rank(index int32, score []byte) {
	b.Events = append(b.Events, Event{Kind: EventRank, Key: index, A: b.put(score)})
}

// Fail says that the response cannot be completed. It takes effect after all of the batch's events.
func (b *Batch) Fail(e *apierror.Error) { b.fail = e }

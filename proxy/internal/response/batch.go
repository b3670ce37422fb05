package response

import (
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// EventKind is the kind of an Event.
type EventKind uint8

// The kinds of events, with the fields of Event that each of them uses.
const (
	EventStart         EventKind = iota + 1 // A = id, B = model, C = reasoning format
	EventText                               // A = text
	EventRefusal                            // A = text
	EventReasoning                          // A = text, Key, Code = abi.ReasoningPart
	EventToolCall                           // A = id, B = name, Key
	EventToolArguments                      // A = text, Key
	EventToolEnd                            // Key
	EventExtra                              // A = member name, B = JSON value, Key, Code = abi.Scope
	EventUsage                              // Value, Code = abi.UsageKind
	EventFinish                             // A = native reason, Code = abi.FinishReason
	EventDone                               // Code = abi.DoneNow or abi.DoneAtEnd
	EventFrame                              // A = name, B = data
	EventEmbedding                          // Key = index, A = numbers
	EventRank                               // Key = index, A = score
)

// Span is a range of a Batch's bytes.
type Span struct{ Off, Len uint32 }

// Event is one event of a provider's response. It contains no pointers; its texts are spans of the Batch that holds it.
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

// Batch holds the events of one plugin call, or of one chunk that the host read natively, in order. A plugin call takes
// effect only if it returns 0, so its events are collected here until Writer.Apply applies them or Reset drops them.
//
// A Batch copies its input and can be reused after Reset, without allocating once it has grown. It checks nothing;
// Writer.Apply does. It is not safe for concurrent use.
type Batch struct {
	Events []Event
	arena  []byte
	fail   *apierror.Error
}

// Reset drops all events. It keeps the memory unless that has grown beyond what ordinary events need.
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

// Size returns the number of bytes in the batch's texts and values.
func (b *Batch) Size() int { return len(b.arena) }

// Failure returns the error of the last call of Fail, or nil.
func (b *Batch) Failure() *apierror.Error { return b.fail }

func (b *Batch) put(p []byte) Span {
	off := len(b.arena)
	b.arena = append(b.arena, p...)
	return Span{uint32(off), uint32(len(p))}
}

// Start sets the response's id and model and the format of its reasoning. Each may be empty.
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

// Reasoning appends to a part of the reasoning block identified by key.
func (b *Batch) Reasoning(choice int32, part abi.ReasoningPart, key int32, enc abi.Encoding, s []byte) {
	b.Events = append(b.Events, Event{Kind: EventReasoning, Code: uint8(part), Choice: choice, Key: key, Encoding: enc, A: b.put(s)})
}

// ToolCall starts a tool call. key is the provider's number of the block. If id is empty, the Writer generates one.
func (b *Batch) ToolCall(choice, key int32, id, name []byte) {
	b.Events = append(b.Events, Event{Kind: EventToolCall, Choice: choice, Key: key, A: b.put(id), B: b.put(name)})
}

// ToolArguments appends to a tool call's arguments.
func (b *Batch) ToolArguments(choice, key int32, enc abi.Encoding, s []byte) {
	b.Events = append(b.Events, Event{Kind: EventToolArguments, Choice: choice, Key: key, Encoding: enc, A: b.put(s)})
}

// ToolEnd marks the arguments of a tool call as complete.
func (b *Batch) ToolEnd(choice, key int32) {
	b.Events = append(b.Events, Event{Kind: EventToolEnd, Choice: choice, Key: key})
}

// Extra adds a member outside of the chat completions format to an object of the response.
func (b *Batch) Extra(scope abi.Scope, choice, key int32, member, json []byte) {
	b.Events = append(b.Events, Event{Kind: EventExtra, Code: uint8(scope), Choice: choice, Key: key, A: b.put(member), B: b.put(json)})
}

// Usage sets a token count. The last one of a kind wins.
func (b *Batch) Usage(kind abi.UsageKind, value int64) {
	b.Events = append(b.Events, Event{Kind: EventUsage, Code: uint8(kind), Value: value})
}

// Finish sets the finish reason of a choice. native is the provider's own name of it if the OpenAI API uses another.
func (b *Batch) Finish(choice int32, reason abi.FinishReason, native []byte) {
	b.Events = append(b.Events, Event{Kind: EventFinish, Code: uint8(reason), Choice: choice, A: b.put(native)})
}

// Done declares the response complete, either now (abi.DoneNow) or at a clean end of the body (abi.DoneAtEnd).
func (b *Batch) Done(when int32) {
	b.Events = append(b.Events, Event{Kind: EventDone, Code: uint8(when)})
}

// Frame passes on an unchanged event (name and data) or the body of a non-streaming response, from a provider that
// speaks the client's API. It follows the events that were read from it.
func (b *Batch) Frame(name, data []byte) {
	b.Events = append(b.Events, Event{Kind: EventFrame, A: b.put(name), B: b.put(data)})
}

// Embedding adds the vector of the input with this index: a JSON array of numbers, or empty if a frame of the batch
// contains it.
func (b *Batch) Embedding(index int32, numbers []byte) {
	b.Events = append(b.Events, Event{Kind: EventEmbedding, Key: index, A: b.put(numbers)})
}

// Rank adds the next ranked document: its index in the request, and its score as a JSON number, which is empty if a
// frame of the batch contains it.
func (b *Batch) Rank(index int32, score []byte) {
	b.Events = append(b.Events, Event{Kind: EventRank, Key: index, A: b.put(score)})
}

// Fail ends the response with an error. It takes effect after all events of the batch.
func (b *Batch) Fail(e *apierror.Error) { b.fail = e }

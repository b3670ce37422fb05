package response

import (
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"

	"fmt"

	"github.com/sluice-gateway/sluice/sdk/abi"
)

// DefaultMaxHeld is how many bytes of one answer a Machine holds unless its options say otherwise.
const DefaultMaxHeld = 32 << 20

// Options is what a Machine must know of the request that it answers.
type Options struct {
	Stream       bool // render chunks; else collect one answer
	IncludeUsage bool // the client asked for the usage chunk

	ID      string // the answer's id where the provider gives none, and the base of invented tool call ids
	Model   string // the answer's model where the provider names none
	Created int64  // Unix seconds

	Choices        int   // how many choices were asked for; only a hint for memory
	PromptEstimate int64 // prompt tokens where the provider does not say

	// Aliases gives a tool's name for the alias that the provider was told, or the alias itself. It may be nil. What
	// it returns is not kept.
	Aliases func(name []byte) []byte

	MaxHeld int // bytes of one answer held in memory; 0 is DefaultMaxHeld
}

// Writer turns the events of one answer into what a client receives: the frames of a stream, or one whole answer.
//
// It keeps, whatever the provider sends and in whatever order:
//
//   - one id, model and time of creation for the whole answer, fixed when the first byte is rendered;
//   - each choice begins with one role chunk and has one finish chunk, with nothing behind it;
//   - the usage chunk, where it was asked for, and "[DONE]" come last, and only if the answer is complete;
//   - a failure is the last thing of a stream, and then there is no "[DONE]" and no finish reason that nobody gave;
//   - every frame is one line of valid JSON in UTF-8, and ends with a blank line.
//
// A batch is first prepared (checked, and its texts decoded), which changes nothing that can be seen, then committed,
// which cannot fail: so a batch is applied whole or not at all.
//
// Finish chunks are rendered when the answer completes, not when a reason is recorded: until then the provider may still
// fail, and a client that has seen a reason would take half an answer for a whole one.
//
// A Writer may be used again after Reset, and then needs no new memory for an answer like the one before. It is not safe
// for concurrent use.
type Writer struct {
	o Options

	id, model, format []byte // escaped for JSON
	frozen            bool   // id, model
	formatFrozen      bool

	choices []*choice // by index; those that are not seen hold memory for later
	usage   tally
	usageX  usageMembers
	once    members // extra members of the answer, for the next chunk; for a whole answer all of them
	sticky  members // scalar extra members of the answer, in every chunk

	prefix []byte // of every chunk, up to and with `"choices":[`
	out    []byte // rendered and not taken
	taken  bool

	epoch   uint64  // number of the batch
	pieces  []piece // by event of the batch in hand
	scratch []byte  // decoded texts and compacted values of the batch in hand
	rests   []byte  // see rest

	held     int   // bytes of texts and extra members
	bytes    int64 // bytes of texts so far, for the estimate of the completion tokens
	dropped  int
	events   bool // something was applied
	doneNow  bool
	atEnd    bool // complete at a clean end of the body
	complete bool
	failed   *apierror.Error
}

// ProtocolError says why a batch was refused. It names the place, never what stood there.
type ProtocolError struct {
	Event  int // index in the batch
	Reason string
}

// Error is the reason and the event's number.
func (e *ProtocolError) Error() string { return fmt.Sprintf("event %d: %s", e.Event, e.Reason) }

// Reset prepares the machine for the answer to another request. Memory that only a very large answer needs is given back.
func (m *Writer) Reset(o Options) {
	if o.MaxHeld <= 0 {
		o.MaxHeld = DefaultMaxHeld
	}
	choices := m.choices
	if len(choices) > 8 {
		choices = choices[:8:8]
	}
	for _, c := range choices {
		c.reset()
	}
	m.usageX.reset()
	m.once.reset()
	m.sticky.reset()
	*m = Writer{
		o:       o,
		id:      m.id[:0],
		model:   m.model[:0],
		format:  m.format[:0],
		choices: choices,
		usageX:  m.usageX,
		once:    m.once,
		sticky:  m.sticky,
		prefix:  m.prefix[:0],
		out:     trim(m.out),
		epoch:   m.epoch,
		pieces:  trimPieces(m.pieces),
		scratch: trim(m.scratch),
		rests:   m.rests[:0],
	}
}

// Apply takes the events of a batch, in order. A *ProtocolError refuses all of them; an *Error says that the answer has
// outgrown MaxHeld, or holds JSON that can be read in more than one way. In both cases nothing of the batch is rendered, and the caller says how the answer ends (Fail).
//
// Where the batch holds a failure, the answer ends with it. If nothing of the answer has been rendered before, nothing of
// the batch is either, so that the failure can still be an HTTP status and another target may be tried.
//
// The batch may be reset as soon as Apply returns.
func (m *Writer) Apply(b *Batch) error {
	fail := b.Failure()
	if len(b.Events) > 0 || fail != nil {
		m.events = true
	}
	if m.complete || m.failed != nil {
		m.dropAll(b)
		return nil
	}
	if err := m.prepare(b); err != nil {
		return err
	}
	if fail != nil && !m.Started() {
		for i := range b.Events {
			if ev := &b.Events[i]; ev.Kind == EventUsage {
				m.usage.set(abi.UsageKind(ev.Code), ev.Value)
			}
		}
		m.Fail(fail)
		return nil
	}
	rendered := len(m.out)
	m.commit(b)
	switch {
	case m.held > m.o.MaxHeld:
		m.out = m.out[:rendered]
		return apierror.Fail(abi.FailBadAnswer, "upstream_answer_too_large", "", "The provider's answer is larger than the gateway takes.")
	case fail != nil:
		m.Fail(fail)
	case m.doneNow:
		m.finishAnswer()
	}
	return nil
}

// End is the clean end of the upstream's body. The answer completes if the provider has said that this is where it does;
// else the error that End returns ends it. A cut body is not an end: call Fail.
func (m *Writer) End() error {
	switch {
	case m.complete:
		return nil
	case m.failed != nil:
		return m.failed
	case m.atEnd:
		m.finishAnswer()
	case !m.events:
		m.Fail(apierror.Fail(abi.FailBadAnswer, "", "", "The provider's answer holds nothing."))
	default:
		m.Fail(Truncated())
	}
	if m.failed != nil {
		return m.failed
	}
	return nil
}

// Truncated is the error of an upstream body that ended before the answer was complete.
func Truncated() *apierror.Error {
	return &apierror.Error{
		Status:  502,
		Type:    apierror.TypeServer,
		Code:    "upstream_stream_truncated",
		Message: "Upstream closed the stream before it was complete",
		TryNext: true,
	}
}

// Fail ends the answer. In a stream of which the client has bytes, or is about to have, the error frame is rendered;
// else the failure is only remembered. An answer that has ended already is left as it is.
func (m *Writer) Fail(e *apierror.Error) {
	if m.complete || m.failed != nil {
		return
	}
	m.failed = e
	if m.Started() {
		m.out = AppendErrorFrame(m.out, e)
	}
}

// Complete reports whether the answer is complete: for a stream, that "[DONE]" has been rendered.
func (m *Writer) Complete() bool { return m.complete }

// Failed is the error that the answer ended with, nil if none.
func (m *Writer) Failed() *apierror.Error { return m.failed }

// Started reports whether there are bytes for the client, taken or waiting. From then on no other target can be tried.
// It stays false for a whole answer.
func (m *Writer) Started() bool { return m.taken || len(m.out) > 0 }

// Output is what has been rendered since the last Take. It is valid until the next call of Take, Apply, End, Fail or
// Reset.
func (m *Writer) Output() []byte { return m.out }

// Held is how many bytes of the answer are held: of a whole one all, of a stream what is not rendered yet.
func (m *Writer) Held() int { return m.held }

// Take says that Output has been sent.
func (m *Writer) Take() {
	if len(m.out) > 0 {
		m.taken = true
	}
	m.out = trim(m.out)
}

// Dropped counts the events with content that came for a choice behind its finish, for a tool call that was not there, or
// behind the end of the answer.
func (m *Writer) Dropped() int { return m.dropped }

// TextLength is the length of a choice's content so far, in code points, as far as it has been applied.
func (m *Writer) TextLength(choice int32) int64 {
	if choice < 0 || int(choice) >= len(m.choices) {
		return 0
	}
	return m.choices[choice].points
}

// HasTool reports whether a tool call with this key has been applied.
func (m *Writer) HasTool(choice, key int32) bool {
	if choice < 0 || int(choice) >= len(m.choices) {
		return false
	}
	t := m.choices[choice].tool(key)
	return t != nil && t.open
}

// dropAll counts the content of a batch that came too late.
func (m *Writer) dropAll(b *Batch) {
	for i := range b.Events {
		if ev := &b.Events[i]; ev.hasContent() {
			m.dropped++
		}
	}
}

// hasContent reports whether the event would add to what a choice says.
func (ev *Event) hasContent() bool {
	switch ev.Kind {
	case EventText, EventRefusal, EventReasoning, EventToolArguments:
		return ev.A.Len > 0
	case EventToolCall:
		return true
	}
	return false
}

// at returns a choice's state, making room for it. The index is within the contract's bounds.
func (m *Writer) at(index int32) *choice {
	for int(index) >= len(m.choices) {
		if len(m.choices) == cap(m.choices) && cap(m.choices) == 0 {
			m.choices = make([]*choice, 0, min(max(m.o.Choices, 1), abi.MaxChoices))
		}
		m.choices = append(m.choices, &choice{index: int32(len(m.choices))})
	}
	return m.choices[index]
}

// keepBytes is how much of a buffer is kept for the next answer.
const keepBytes = 64 << 10

func trim(p []byte) []byte {
	if cap(p) > keepBytes {
		return nil
	}
	return p[:0]
}

func trimPieces(p []piece) []piece {
	if cap(p) > 1024 {
		return nil
	}
	return p[:0]
}

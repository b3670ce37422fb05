package response

import (
	"fmt"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/cost"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// DefaultMaxHeld is how many bytes of one response a Writer holds unless its options say otherwise.
const DefaultMaxHeld = 32 << 20

// Options is what a Writer must know of the request that it responds to.
type Options struct {
	Stream       bool // write frames; else collect one body
	IncludeUsage bool // the client asked for usage at the end of a stream

	// FunctionCalls is for a client that knows function_call, the older form of tool_calls.
	FunctionCalls bool

	ID        string // the response's ID where the provider gives none, and the base of generated tool call IDs
	RequestID string // the gateway's ID of the request, for APIs whose errors have it

	Model   string // the response's model where the provider names none
	Created int64  // Unix seconds

	Choices        int   // how many choices were asked for; only a hint for memory
	PromptEstimate int64 // prompt tokens where the provider does not count them

	Prices *cost.Prices // of the target; nil: unknown

	// Aliases returns the client's name of a tool for the alias that the provider was given, or the alias itself. It may be
	// nil. What it returns is not kept.
	Aliases func(name []byte) []byte

	MaxHeld int // bytes of one response held in memory; 0 is DefaultMaxHeld

	Tap Tap // sees what the Renderer is called with; nil: nothing does
}

// Writer turns the events of one response into what a client receives, through a Renderer: the frames of a stream, or one
// body.
//
// It keeps, whatever the provider sends and in whatever order:
//
//   - one ID, model and time of creation for the whole response, fixed when the client can first see them;
//   - each choice finishes once, with nothing after it;
//   - the response completes last, and only if the provider has declared it complete;
//   - a failure is the last thing of a stream, and then there is no finish reason that the provider did not give.
//
// A batch is first prepared (checked, and its texts decoded), which changes nothing that can be seen, then committed,
// which cannot fail: so a batch is applied whole or not at all.
//
// Choices finish when the response completes, not when a reason is recorded: until then the provider may still fail, and a
// client that has seen a reason would take a part of a response for all of it.
//
// A Writer may be used again after Reset, and then needs no new memory for a response like the one before. It is not safe
// for concurrent use.
type Writer struct {
	r     Renderer     // own, or the tap before it
	own   Renderer     // that NewWriter was given
	items ItemRenderer // own, if it is one
	out   *Output      // the renderer's
	o     Options

	head    Head
	choices []*choice // by index; those that have not begun hold memory for later
	usage   tally
	sent    bool // the client has been sent something

	epoch     uint64     // number of the batch
	prepared  []prepared // by event of the current batch
	scratch   []byte     // decoded texts and compacted values of the current batch
	remainder []byte     // see text.finish
	id, name  []byte     // of the tool call that begins
	tier      []byte     // of the provider's service, as far as it has said

	held      int   // bytes of defaults
	textBytes int64 // bytes of texts so far, for the estimate of completion tokens
	dropped   int
	events    bool // something was applied
	anyItems  bool // so was an item
	doneNow   bool
	doneAtEnd bool // complete at a clean end of the body
	complete  bool
	failed    *apierror.Error
}

// NewWriter returns a writer that uses r, which nothing else may use.
func NewWriter(r Renderer) *Writer {
	w := &Writer{own: r, items: itemRenderer(r)}
	w.head.usage = w.Usage
	w.Reset(Options{})
	return w
}

// ProtocolError is the reason why a batch was refused. It names the place, never what stood there.
type ProtocolError struct {
	Event  int // index in the batch
	Reason string
}

// Error is the reason and the event's number.
func (e *ProtocolError) Error() string { return fmt.Sprintf("event %d: %s", e.Event, e.Reason) }

// Reset prepares the writer for the response to another request. Memory that only a very large response needs is freed.
func (w *Writer) Reset(o Options) {
	if o.MaxHeld <= 0 {
		o.MaxHeld = DefaultMaxHeld
	}
	choices := w.choices
	if len(choices) > 8 {
		choices = choices[:8:8]
	}
	for _, c := range choices {
		c.reset()
	}
	*w = Writer{
		r:         w.own,
		own:       w.own,
		items:     w.items,
		o:         o,
		head:      w.head,
		choices:   choices,
		epoch:     w.epoch,
		prepared:  reusePrepared(w.prepared),
		scratch:   Reuse(w.scratch),
		remainder: w.remainder[:0],
		id:        w.id[:0],
		name:      w.name[:0],
		tier:      w.tier[:0],
	}
	w.head.reset(&o)
	if o.Tap != nil {
		o.Tap.Over(w.own)
		w.r = o.Tap
	}
	w.out = w.r.Reset(&w.head)
	w.out.Buf, w.out.Held, w.out.Failed = Reuse(w.out.Buf), 0, nil
}

// Apply applies the events of a batch, in order. A *ProtocolError refuses all of them; an *apierror.Error means that the
// response cannot be used: it has outgrown MaxHeld, has more tool calls or parts of reasoning than a choice may have, holds JSON
// that can be read in more than one way, or cannot be spelled in the client's API. In both cases nothing of the batch is
// written, and the caller decides how the response ends (Fail).
//
// Where the batch holds a failure, the response ends with it. If nothing of the response has been written before, nothing
// of the batch is either, so that the failure can still be an HTTP status and another target may be tried.
//
// The batch may be reset as soon as Apply returns.
func (w *Writer) Apply(b *Batch) error {
	fail := b.Failure()
	if len(b.Events) > 0 || fail != nil {
		w.events = true
	}
	if w.complete || w.failed != nil {
		w.dropAll(b)
		return nil
	}
	if err := w.prepare(b); err != nil {
		return err
	}
	if fail != nil && !w.Started() {
		for i := range b.Events {
			if ev := &b.Events[i]; ev.Kind == EventUsage {
				w.usage.set(abi.UsageKind(ev.Code), ev.Value)
			}
		}
		w.Fail(fail)
		return nil
	}
	written := len(w.out.Buf)
	w.commit(b)
	switch {
	case w.Held() > w.o.MaxHeld:
		w.out.Buf = w.out.Buf[:written]
		return apierror.Fail(abi.FailBadAnswer, "upstream_answer_too_large", "", "The provider's response is larger than the gateway accepts.")
	case w.out.Failed != nil:
		w.out.Buf = w.out.Buf[:written]
		return w.out.Failed
	case fail != nil:
		w.Fail(fail)
	case w.doneNow:
		w.finish()
	}
	return nil
}

// End is the clean end of the upstream's body. The response completes if the provider has declared that it ends there;
// else the error that End returns ends it. A truncated body is not an end: call Fail.
func (w *Writer) End() error {
	switch {
	case w.complete:
		return nil
	case w.failed != nil:
		return w.failed
	case w.doneAtEnd:
		w.finish()
	case !w.events:
		w.Fail(apierror.Fail(abi.FailBadAnswer, "", "", "The provider's response is empty."))
	default:
		w.Fail(Truncated())
	}
	if w.failed != nil {
		return w.failed
	}
	return nil
}

// Began reports whether anything of the response was written.
func (w *Writer) Began() bool { return w.events }

// Incomplete reports whether the response failed because the upstream body ended before it was complete.
func (w *Writer) Incomplete() bool { return w.failed != nil && w.failed.Code == codeTruncated }

const codeTruncated = "upstream_stream_truncated"

// Truncated is the error of an upstream body that ended before the response was complete.
func Truncated() *apierror.Error {
	return &apierror.Error{
		Status:  502,
		Kind:    apierror.KindServer,
		Code:    codeTruncated,
		Message: "Upstream closed the stream before it was complete",
		TryNext: true,
	}
}

// Fail ends the response. In a stream of which the client has bytes, or is about to have, the error frame is written;
// else the failure is only remembered. A response that has ended already is left as it is.
func (w *Writer) Fail(e *apierror.Error) {
	if w.complete || w.failed != nil {
		return
	}
	w.failed = e
	if w.Started() {
		w.out.Buf = w.r.AppendError(w.out.Buf, e)
	}
}

// Revoke ends a response that its renderer has given up after Apply has returned, also one that is complete: what comes between the two may
// take its time. If the client has been sent nothing, what was rendered is dropped, so that the failure can be an HTTP status.
func (w *Writer) Revoke(e *apierror.Error) {
	if w.failed != nil {
		return
	}
	w.complete = false
	if !w.sent {
		w.out.Buf = Reuse(w.out.Buf)
	}
	w.Fail(e)
}

// AppendError appends the frame that ends a stream with an error, for a stream that Fail has not ended with it.
func (w *Writer) AppendError(dst []byte, e *apierror.Error) []byte { return w.r.AppendError(dst, e) }

// AppendResponse appends the body of a non-streaming response. It may be called when the response is complete.
func (w *Writer) AppendResponse(dst []byte) []byte { return w.r.AppendResponse(dst, w.Usage()) }

// ID is the response's ID, as far as it is known, escaped for JSON. It is valid until Reset.
func (w *Writer) ID() []byte { return w.head.ID }

// Complete reports whether the response is complete: for a stream, that its last frame has been written.
func (w *Writer) Complete() bool { return w.complete }

// Failed is the error that the response ended with, nil if none.
func (w *Writer) Failed() *apierror.Error { return w.failed }

// Started reports whether there are bytes for the client, sent or waiting. From then on no other target can be tried.
// It stays false for a non-streaming response.
func (w *Writer) Started() bool { return w.sent || len(w.out.Buf) > 0 }

// Tap returns the tap of the options, nil if there is none.
func (w *Writer) Tap() Tap { return w.o.Tap }

// Output is what has been written and not sent. It is valid until the next call of Consume, Apply, End, Fail or Reset.
func (w *Writer) Output() []byte { return w.out.Buf }

// Consume marks Output as sent, and empties it.
func (w *Writer) Consume() {
	if len(w.out.Buf) > 0 {
		w.sent = true
	}
	w.out.Buf = Reuse(w.out.Buf)
}

// Held is how many bytes of the response are in memory besides Output: of a non-streaming one all, of a stream what cannot
// be written yet.
func (w *Writer) Held() int { return w.held + w.out.Held }

// Dropped counts the events with content that came for a choice after its finish, for a tool call that had not begun, or
// after the end of the response.
func (w *Writer) Dropped() int { return w.dropped }

// TextLength is the length of a choice's content so far, in code points, as far as it has been applied.
func (w *Writer) TextLength(choice int32) int64 {
	if choice < 0 || int(choice) >= len(w.choices) {
		return 0
	}
	return w.choices[choice].points
}

// HasTool reports whether a tool call with this key has begun.
func (w *Writer) HasTool(choice, key int32) bool {
	if choice < 0 || int(choice) >= len(w.choices) {
		return false
	}
	t := w.choices[choice].tool(key)
	return t != nil && t.begun
}

// dropAll counts the content of a batch that came too late.
func (w *Writer) dropAll(b *Batch) {
	for i := range b.Events {
		if ev := &b.Events[i]; ev.hasContent() {
			w.dropped++
		}
	}
}

// at returns a choice's state, making room for it. The index is within the contract's bounds.
func (w *Writer) at(index int32) *choice {
	for int(index) >= len(w.choices) {
		if cap(w.choices) == 0 {
			w.choices = make([]*choice, 0, min(max(w.o.Choices, 1), abi.MaxChoices))
		}
		w.choices = append(w.choices, &choice{index: int32(len(w.choices))})
	}
	return w.choices[index]
}

// Reuse returns p emptied, for the next response, or nil if it is larger than most responses need.
func Reuse(p []byte) []byte {
	const most = 64 << 10
	if cap(p) > most {
		return nil
	}
	return p[:0]
}

func reusePrepared(p []prepared) []prepared {
	if cap(p) > 1024 {
		return nil
	}
	return p[:0]
}

package response

import (
	"fmt"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/cost"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// DefaultMaxHeld is the default of Options.MaxHeld.
const DefaultMaxHeld = 32 << 20

// Options describes the response to write and its request.
type Options struct {
	Stream       bool // write frames instead of one body
	IncludeUsage bool // the client asked for usage at the end of a stream

	// FunctionCalls is set for clients that use function_call, the predecessor of tool_calls.
	FunctionCalls bool

	ID        string // the response's ID if the provider gives none, and the base of generated tool call IDs
	RequestID string // the gateway's ID of the request, for APIs that put it into errors

	Model   string // the response's model if the provider names none
	Created int64  // Unix seconds

	Choices        int   // number of choices that the client asked for; only a hint for allocation
	PromptEstimate int64 // prompt tokens if the provider does not count them
	PromptMost     int64 // the most tokens that the prompt can have; 0 if unknown
	ResponseMost   int64 // the most tokens that all choices together can have; 0 if unknown

	Prices *cost.Prices // prices of the target, nil if unknown

	// Aliases maps the alias of a tool that was sent to the provider to the client's name, and returns other names
	// unchanged. It may be nil. The Writer does not retain the result.
	Aliases func(name []byte) []byte

	MaxHeld int // maximum number of bytes of a response that are held in memory (Held); 0 means DefaultMaxHeld

	Tap Tap // observes the calls of the Renderer; may be nil
}

// Writer turns the events of one response into output for the client, through a Renderer: either the frames of a stream
// or one body.
//
// Whatever the provider sends, and in whatever order, the Writer guarantees that
//
//   - the response has one ID, model and creation time, fixed when the client can first see them;
//   - each choice finishes once, with nothing after it;
//   - the response completes last, and only if the provider has declared it complete;
//   - a failure is the last event of a stream, and a failed stream has no finish reason that the provider did not give.
//
// A batch is first prepared, which checks it and decodes its texts without a visible effect, and then committed, which
// cannot fail. So a batch is applied whole or not at all.
//
// Choices finish when the response completes, not when the provider gives a finish reason. Until then the provider may
// still fail, and a client that has seen a finish reason would take a partial response for a complete one.
//
// A Writer can be reused after Reset, and then does not allocate for a response of similar size. It is not safe for
// concurrent use.
type Writer struct {
	r     Renderer     // base, or the tap in front of it
	base  Renderer     // the argument of NewWriter
	items ItemRenderer // base as an ItemRenderer, nil if it is not one
	out   *Output      // the renderer's output
	o     Options

	head    Head
	choices []*choice // by index; a choice that has not begun is kept for its memory
	usage   tally
	sent    bool // a part of the response has been sent to the client

	epoch     uint64     // number of the current batch
	prepared  []prepared // by event of the current batch
	scratch   []byte     // decoded texts and compacted values of the current batch
	remainder []byte     // result of finishText
	id, name  []byte     // escaped ID and name of the tool call that is starting
	tier      []byte     // service tier that the provider has reported, if any

	held      int   // bytes of default texts
	textBytes int64 // bytes of texts so far, for the estimate of completion tokens
	dropped   int   // see Dropped
	events    bool  // an event or a failure was applied
	anyItems  bool  // an item was applied
	ending
}

// ending is how far the response has ended, and how.
type ending struct {
	doneNow     bool // the provider has declared the response complete
	unfinished  bool // see Unfinished
	partialCall bool // see PartialCall
	doneAtEnd   bool // the response is complete if the body ends cleanly
	complete    bool
	revoked     bool // the response was complete when it was revoked, so the counts are final
	ended       bool // the provider has ended the response, with its completion or with an error
	failed      *apierror.Error
}

// NewWriter returns a Writer that renders with r. It takes ownership of r.
func NewWriter(r Renderer) *Writer {
	w := &Writer{base: r, items: itemRenderer(r)}
	w.head.usage = w.Usage
	w.Reset(Options{})
	return w
}

// ProtocolError is the reason why a batch was rejected. It identifies the event but never quotes its content.
type ProtocolError struct {
	Event  int // index in the batch
	Reason string
}

// Error returns the event's index and the reason.
func (e *ProtocolError) Error() string { return fmt.Sprintf("event %d: %s", e.Event, e.Reason) }

// Reset prepares the writer for the response to another request. It frees buffers that grew beyond what most responses
// need.
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
		r:         w.base,
		base:      w.base,
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
		o.Tap.SetNext(w.base)
		w.r = o.Tap
	}
	w.out = w.r.Reset(&w.head)
	w.out.Buf, w.out.Held, w.out.Failed = Reuse(w.out.Buf), 0, nil
}

// Apply applies the events of a batch, in order. A *ProtocolError means that the batch was rejected. An *apierror.Error
// means that the response cannot be used: it exceeds MaxHeld, has more tool calls or parts of reasoning than a choice
// may have, contains JSON that can be read in more than one way, or cannot be represented in the client's API. In both
// cases no part of the batch is written, and the caller decides how the response ends (Fail).
//
// If the batch contains a failure, the response ends with it. If no part of the response was written before, no part of
// this batch is written either, so that the failure can still become an HTTP status or another target can be tried.
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
	w.ended = fail != nil
	if err := w.prepare(b); err != nil {
		return err
	}
	if fail != nil && !w.Started() {
		for i := range b.Events {
			if ev := &b.Events[i]; ev.Kind == EventUsage {
				w.count(abi.UsageKind(ev.Code), ev.Value)
			}
		}
		w.Fail(fail)
		return nil
	}
	started := w.Started()
	w.commit(b)
	if failed := w.Held() > w.o.MaxHeld || w.out.Failed != nil; failed && !started {
		w.out.Buf = w.out.Buf[:0] // another target may be tried
	}
	switch {
	case w.Held() > w.o.MaxHeld:
		return apierror.Fail(abi.FailBadAnswer, "upstream_answer_too_large", "", "The provider's response is larger than the gateway accepts.")
	case w.out.Failed != nil:
		return w.out.Failed
	case fail != nil:
		w.Fail(fail)
	case w.doneNow:
		w.finish()
	}
	return nil
}

// End handles a clean end of the upstream's body. The response completes if the provider has declared that it ends with
// the body. Otherwise it fails with the error that End returns. For a truncated body call Fail instead.
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

// Began reports whether an event or a failure has been applied.
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

// Fail ends the response with an error. If a stream has output, sent or pending, Fail appends the error frame;
// otherwise it only records the failure. It has no effect on a response that has ended.
func (w *Writer) Fail(e *apierror.Error) {
	if w.complete || w.failed != nil {
		return
	}
	w.failed = e
	if w.Started() {
		w.out.Buf = w.r.AppendError(w.out.Buf, e)
	}
}

// Revoke fails a response that was rejected only after Apply had returned, for example by a filter.
// The response may already be complete. If nothing was sent to the client, Revoke drops the rendered output, so that
// the failure can become an HTTP status.
func (w *Writer) Revoke(e *apierror.Error) {
	if w.failed != nil {
		return
	}
	w.ended, w.revoked, w.complete = w.complete, w.complete, false
	if !w.sent {
		w.out.Buf = Reuse(w.out.Buf)
	}
	w.Fail(e)
}

// AppendError appends the frame that ends a stream with an error, for a stream that was not ended by Fail.
func (w *Writer) AppendError(dst []byte, e *apierror.Error) []byte { return w.r.AppendError(dst, e) }

// AppendResponse appends the body of a non-streaming response. It may be called when the response is complete.
func (w *Writer) AppendResponse(dst []byte) []byte { return w.r.AppendResponse(dst, w.Usage()) }

// ID returns the response's ID, escaped for JSON, or nothing if it is not known yet. It is valid until Reset.
func (w *Writer) ID() []byte { return w.head.ID }

// ClientID returns the response's ID as the client receives it, escaped for JSON, or nothing if it is not known yet. It
// is valid until Reset.
func (w *Writer) ClientID() []byte {
	if len(w.head.clientID) > 0 {
		return w.head.clientID
	}
	return w.head.ID
}

// Complete reports whether the response is complete. A complete stream has its last frame in Output or sent.
func (w *Writer) Complete() bool { return w.complete }

// DoneAtEnd reports whether the response is complete if its body ends cleanly.
func (w *Writer) DoneAtEnd() bool { return w.doneAtEnd }

// PartialCall reports whether the arguments of a tool call of a complete response are not a whole JSON value, although
// the finish reason does not say why.
func (w *Writer) PartialCall() bool { return w.partialCall }

// Unfinished reports whether a choice of a complete response had no finish reason, so that it became "stop".
func (w *Writer) Unfinished() bool { return w.unfinished }

// Failed returns the error that ended the response, or nil.
func (w *Writer) Failed() *apierror.Error { return w.failed }

// Started reports whether a stream has output, sent or pending. From then on no other target can be tried. It is always
// false for a non-streaming response.
func (w *Writer) Started() bool { return w.sent || len(w.out.Buf) > 0 }

// Tap returns Options.Tap.
func (w *Writer) Tap() Tap { return w.o.Tap }

// Output returns the frames that have not been sent. It is valid until the next call of Consume, Apply, End, Fail or
// Reset.
func (w *Writer) Output() []byte { return w.out.Buf }

// Consume marks Output as sent and empties it.
func (w *Writer) Consume() {
	if len(w.out.Buf) > 0 {
		w.sent = true
	}
	w.out.Buf = Reuse(w.out.Buf)
}

// Held returns the number of bytes of the response in memory besides Output: an entire non-streaming response, or the
// parts of a stream that cannot be written yet.
func (w *Writer) Held() int { return w.held + w.out.Held }

// Dropped counts events with content that were ignored because their choice had finished, their tool call had not
// started, or the response had ended.
func (w *Writer) Dropped() int { return w.dropped }

// TextLength returns the length of a choice's content so far, in code points. Events that are not applied yet do not
// count.
func (w *Writer) TextLength(choice int32) int64 {
	if choice < 0 || int(choice) >= len(w.choices) {
		return 0
	}
	return w.choices[choice].points
}

// HasTool reports whether a tool call with this key has started.
func (w *Writer) HasTool(choice, key int32) bool {
	if choice < 0 || int(choice) >= len(w.choices) {
		return false
	}
	t := w.choices[choice].tool(key)
	return t != nil && t.begun
}

// dropAll counts the events with content of a batch that arrived after the end.
func (w *Writer) dropAll(b *Batch) {
	for i := range b.Events {
		if ev := &b.Events[i]; ev.hasContent() {
			w.dropped++
		}
	}
}

// choiceAt returns the state of a choice and allocates it if necessary. The index must be below abi.MaxChoices.
func (w *Writer) choiceAt(index int32) *choice {
	for int(index) >= len(w.choices) {
		if cap(w.choices) == 0 {
			w.choices = make([]*choice, 0, min(max(w.o.Choices, 1), abi.MaxChoices))
		}
		w.choices = append(w.choices, &choice{index: int32(len(w.choices))})
	}
	return w.choices[index]
}

// Reuse returns p emptied, for the next response, or nil if p is larger than most responses need.
func Reuse(p []byte) []byte {
	const maxReused = 64 << 10
	if cap(p) > maxReused {
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

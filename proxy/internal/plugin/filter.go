package plugin

import (
	"context"
	"unicode/utf8"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Filtering is the state of one filter while it processes one request and its response. The zero value is ready once
// the first group of fields is set. It belongs to one goroutine at a time.
type Filtering struct {
	Tenant string   // name of the gateway key, for isolation
	Tags   []string // tags that the filter may set, at most MaxTags

	Set  uint64 // bit i: the filter has set Tags[i]
	Fuel int64  // used, including failed calls

	Mistakes []string // as Attempt.Mistakes

	ticket ticket
	begun  bool   // the first call was made, and the last one did not fail
	out    []byte // buffer of Filtered.Out
	result Filtered
}

// MaxTags is the maximum number of tags of a filter.
const MaxTags = 64

// Reset prepares f for another request and keeps its small allocations.
func (f *Filtering) Reset() {
	const keep = 64 << 10
	out := f.out[:0]
	if cap(out) > keep {
		out = nil
	}
	*f = Filtering{out: out}
}

// Text is a text, or a piece of a streamed one, that is passed to a filter.
type Text struct {
	What   abi.What
	Choice int32
	Flags  abi.TextFlags
	Held   []byte // the end of the previous piece, which the filter held back
	New    []byte // UTF-8
}

// Filtered is the result of filtering one piece of text.
type Filtered struct {
	Out     []byte // the text to pass on; valid as long as the input, and until the next call with the same Filtering
	Held    int    // bytes at the end of the input (Held and New) that the caller passes again with the next piece
	Changed bool   // Out is not simply the beginning of the input
	Kept    int    // bytes of Out before the first change, if Changed
}

// FilterRequest announces a request to a filter before the request's texts. input is the document that describes it. A
// filter without this export is not called.
func (b *Binding) FilterRequest(ctx context.Context, f *Filtering, input []byte) error {
	if !b.plugin.exports[exportFilterRequest] {
		return nil
	}
	return b.filter(ctx, &invocation{export: exportFilterRequest, first: input, filtering: f}, f)
}

// ReadsRequest reports whether the filter reads what FilterRequest passes to it.
func (b *Binding) ReadsRequest() bool {
	return b.plugin.exports[exportFilterRequest] && (!b.plugin.exports[exportFilterReads] || b.filterReads&abi.FilterRequest != 0)
}

// FilterText passes a piece of text to a filter.
func (b *Binding) FilterText(ctx context.Context, f *Filtering, t *Text) (Filtered, error) {
	f.result = Filtered{}
	inv := invocation{
		export: exportFilterText, number: int32(t.What), choice: t.Choice, flags: t.Flags, first: t.Held, second: t.New,
		filtering: f,
	}
	err := b.filter(ctx, &inv, f)
	return f.result, err
}

// filter calls a filter. The circuit breaker counts all calls for a request and its response as one attempt, up to the
// first failure.
func (b *Binding) filter(ctx context.Context, inv *invocation, f *Filtering) error {
	inv.ticket, inv.begins = &f.ticket, !f.begun
	err := b.call(ctx, inv, tenant{tenantKey, f.Tenant})
	_, failed := err.(*CallError)
	f.begun = !failed // the next call after a failure begins another attempt
	return err
}

// replacement replaces a range of a filter's input.
type replacement struct {
	from, to int    // range of the input
	text     [2]int // range of call.replacementText
}

// largeText is the size, in bytes, above which a call for a text needs the semaphore of whole-body calls.
const largeText = 32 << 10

// Tag implements abi.Host.
func (c *call) Tag(name []byte) abi.Status {
	if !c.beginImport(importTag) {
		return abi.StatusRefused
	}
	if c.export == exportFilterText && c.flags&abi.TextOfRequest == 0 {
		c.abort(KindProtocol, "not allowed for the text of a response")
		return abi.StatusRefused
	}
	for i, t := range c.filtering.Tags {
		if t == string(name) {
			c.tags |= 1 << i
			return abi.StatusOK
		}
	}
	c.refused.set(nil, name)
	return c.refuseFilter(abi.StatusRefused, 0, 0)
}

// inputAt returns byte i of the input, which is the concatenation of first and second.
func (c *call) inputAt(i int) byte {
	if i < len(c.first) {
		return c.first[i]
	}
	return c.second[i-len(c.first)]
}

// betweenRunes reports whether i is a character boundary of the input.
func (c *call) betweenRunes(i int) bool {
	return i == len(c.first)+len(c.second) || c.inputAt(i)&0xC0 != 0x80
}

// Replace implements abi.Host.
func (c *call) Replace(from, to int32, text []byte) abi.Status {
	if !c.beginImport(importReplace) || !c.countOutput(len(text)+entryCost) {
		return abi.StatusRefused
	}
	n := len(c.first) + len(c.second)
	after := 0
	if k := len(c.replaced); k > 0 {
		after = c.replaced[k-1].to
	}
	switch f, t := int(from), int(to); {
	case f < after, t < f, t > n-c.hold, !c.betweenRunes(f), !c.betweenRunes(t), !utf8.Valid(text):
		return c.refuseFilter(abi.StatusRefused, f, t)
	default:
		at := len(c.replacementText)
		c.replacementText = append(c.replacementText, text...)
		c.replaced = append(c.replaced, replacement{f, t, [2]int{at, len(c.replacementText)}})
	}
	return abi.StatusOK
}

// Hold implements abi.Host. It rounds n up to a character boundary.
func (c *call) Hold(n int32) abi.Status {
	if !c.beginImport(importHold) {
		return abi.StatusRefused
	}
	if n < 0 {
		return c.refuseFilter(abi.StatusRefused, 0, int(n))
	}
	if n > abi.MaxHold {
		return c.refuseFilter(abi.StatusTooLarge, 0, int(n))
	}
	if c.flags&abi.TextComplete != 0 {
		return abi.StatusOK
	}
	size := len(c.first) + len(c.second)
	from := size - min(int(n), size)
	for !c.betweenRunes(from) {
		from--
	}
	if k := len(c.replaced); k > 0 && c.replaced[k-1].to > from {
		return c.refuseFilter(abi.StatusRefused, 0, int(n))
	}
	c.hold = size - from
	return abi.StatusOK
}

// commitFilter sets the result of a filter's call.
func (c *call) commitFilter() error {
	f := c.filtering
	f.Set |= c.tags
	if c.failure != nil {
		return c.failure
	}
	if c.export == exportFilterRequest {
		return nil
	}
	r := &f.result
	n := len(c.first) + len(c.second)
	r.Held, r.Changed = c.hold, len(c.replaced) > 0
	if len(c.first) == 0 && !r.Changed {
		r.Out = c.second[:n-c.hold]
		return nil
	}
	f.out = f.out[:0]
	at := 0
	for _, p := range c.replaced {
		f.out = c.appendInput(f.out, at, p.from)
		f.out = append(f.out, c.replacementText[p.text[0]:p.text[1]]...)
		at = p.to
	}
	f.out = c.appendInput(f.out, at, n-c.hold)
	r.Out = f.out
	if r.Changed {
		r.Kept = c.replaced[0].from
	}
	return nil
}

// appendInput appends a range of the input.
func (c *call) appendInput(dst []byte, from, to int) []byte {
	n := len(c.first)
	if from < n {
		dst = append(dst, c.first[from:min(to, n)]...)
	}
	if to > n {
		dst = append(dst, c.second[max(from-n, 0):to-n]...)
	}
	return dst
}

// FilterError returns the error that a client gets when a filter fails.
func (e *CallError) FilterError() *apierror.Error {
	c := e.ClientError()
	c.TryNext = false
	switch e.Kind {
	case KindBusy, KindHost:
	default:
		c.Status, c.Kind, c.Code, c.Message = 502, apierror.KindServer, "filter_failed", "A filter of the gateway failed."
	}
	return c
}

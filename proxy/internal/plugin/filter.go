package plugin

import (
	"context"
	"unicode/utf8"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Filtering is the way of one request and its response through one filter. The zero value is ready once the first group of members is
// set. It belongs to one goroutine at a time.
type Filtering struct {
	Tenant string   // the name of the gateway key, for isolation
	Tags   []string // that the filter may set

	Set  uint64 // the tags that it has set, by bit
	Fuel int64  // used, also by calls that failed

	ticket ticket
	begun  bool
	out    []byte // of the last call
	result Filtered
}

// MaxTags is how many tags a filter may have.
const MaxTags = 64

// Reset prepares f for another request, and keeps its small allocations.
func (f *Filtering) Reset() {
	const keep = 64 << 10
	out := f.out[:0]
	if cap(out) > keep {
		out = nil
	}
	*f = Filtering{out: out}
}

// Text is a text, or a piece of one, that a filter gets.
type Text struct {
	What   abi.What
	Choice int32
	Flags  abi.TextFlags
	Held   []byte // what the filter held of the piece before
	New    []byte // UTF-8
}

// Filtered is what a filter makes of a piece of text.
type Filtered struct {
	Out     []byte // goes on; valid until the next call with the same Filtering, and as long as the input
	Held    int    // bytes at the end of the input, Held and New, that come again with the next piece
	Changed bool   // Out is not the beginning of the input
	Kept    int    // bytes of Out before the first change, if Changed
}

// FilterRequest tells a filter of a request, before it gets the request's texts. input is the document that describes it. A filter
// without the export is not called.
func (b *Binding) FilterRequest(ctx context.Context, f *Filtering, input []byte) error {
	if !b.plugin.exports[exportFilterRequest] {
		return nil
	}
	return b.filter(ctx, &invocation{export: exportFilterRequest, first: input, filtering: f}, f)
}

// FilterText gives a filter a piece of text.
func (b *Binding) FilterText(ctx context.Context, f *Filtering, t *Text) (Filtered, error) {
	f.result = Filtered{}
	inv := invocation{
		export: exportFilterText, number: int32(t.What), choice: t.Choice, flags: t.Flags, first: t.Held, second: t.New,
		filtering: f,
	}
	err := b.filter(ctx, &inv, f)
	return f.result, err
}

// filter makes a call of a filter. The breaker counts a request and its response as one attempt.
func (b *Binding) filter(ctx context.Context, inv *invocation, f *Filtering) error {
	inv.ticket, inv.begins = &f.ticket, !f.begun
	err := b.call(ctx, inv, tenant{tenantKey, f.Tenant})
	_, failed := err.(*CallError)
	f.begun = !failed // what follows a failure is another attempt
	return err
}

// replacement is what a filter puts in the place of a part of its input.
type replacement struct {
	from, to int
	text     [2]int // in call.joined
}

// largeText is from how many bytes on a text counts as a whole body, of which few are worked on at once.
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

// inputAt returns a byte of the input, which is in two parts.
func (c *call) inputAt(i int) byte {
	if i < len(c.first) {
		return c.first[i]
	}
	return c.second[i-len(c.first)]
}

// betweenRunes reports whether a character of the input begins at i, or it ends there.
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
		at := len(c.joined)
		c.joined = append(c.joined, text...)
		c.replaced = append(c.replaced, replacement{f, t, [2]int{at, len(c.joined)}})
	}
	return abi.StatusOK
}

// Hold implements abi.Host. A character is held whole.
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

// commitFilter makes what a filter has said take effect.
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
		f.out = append(f.out, c.joined[p.text[0]:p.text[1]]...)
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

// FilterError is the failure of a filter as a client sees it.
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

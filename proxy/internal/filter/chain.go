package filter

import (
	"context"
	"fmt"
	"slices"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Filter is an entry of [[filters]] with its plugin. It is safe for concurrent use.
type Filter struct {
	Config  *config.Filter
	Binding *plugin.Binding
}

// applies reports whether the filter is used for requests of a client key for a model in an API.
func (f *Filter) applies(api, model, key string) bool {
	match := func(list []config.Glob, name string) bool {
		return slices.ContainsFunc(list, func(g config.Glob) bool { return g.Match(name) })
	}
	return slices.Contains(f.Config.APIs, api) && match(f.Config.Models, model) && match(f.Config.Keys, key)
}

// Chain is the filters that apply to a request and its response, with what they are about to do. The zero value has none.
type Chain struct {
	uses                []*use // those behind the length hold memory for later
	onRequest, response bool

	texts []*text // of the response; those behind the length hold memory for later
	doc   jsondoc.Doc
	edits jsondoc.Edits
	plain []byte // scratch: a text without its escapes
	spell []byte // scratch: a text with its escapes
	args  []byte // scratch: JSON in a text
	one   text   // a text that comes in one piece
}

// use is a filter with its state for a request.
type use struct {
	filter *Filter
	run    plugin.Filtering
	join   []byte // scratch: what passes where the filter fails
}

// text is a text of a response that comes in pieces.
type text struct {
	what   abi.What
	choice int32
	key    int32 // of a reasoning block; else 0
	part   abi.ReasoningPart
	open   bool     // pieces have come since the text began or was completed
	held   [][]byte // by filter
}

// Reset drops the filters and what they hold.
func (c *Chain) Reset() {
	for _, u := range c.uses {
		u.filter = nil
		u.run.Reset()
	}
	c.uses, c.onRequest, c.response = c.uses[:0], false, false
	c.drop()
	c.doc.Reset()
}

// drop forgets what is held.
func (c *Chain) drop() {
	for _, t := range c.texts {
		t.clear()
	}
	c.texts = c.texts[:0]
}

func (t *text) clear() {
	for i := range t.held {
		t.held[i] = t.held[i][:0]
	}
	t.open = false
}

// Begin selects the filters for a request. own is the provider's name for a model that the client has asked for as PROVIDER/MODEL: a filter
// for that model applies, too.
func (c *Chain) Begin(all []*Filter, api, model, own, key string) {
	for _, f := range all {
		if !f.applies(api, model, key) && (own == "" || !f.applies(api, own, key)) {
			continue
		}
		n := len(c.uses)
		if n < cap(c.uses) {
			c.uses = c.uses[:n+1]
		} else {
			c.uses = append(c.uses, nil)
		}
		if c.uses[n] == nil {
			c.uses[n] = new(use)
		}
		u := c.uses[n]
		u.filter, u.run.Tenant, u.run.Tags = f, key, f.Config.Tags
		c.onRequest, c.response = c.onRequest || f.Config.Request, c.response || f.Config.Response
	}
}

// OnRequest and OnResponse report whether there is a filter for the texts of the request, or of the response.
func (c *Chain) OnRequest() bool  { return c.onRequest }
func (c *Chain) OnResponse() bool { return c.response }

// AppendTags appends the tags that filters have set, in the order of the configuration and without repetition.
func (c *Chain) AppendTags(tags []string) []string {
	for _, u := range c.uses {
		for i, t := range u.run.Tags {
			if u.run.Set&(1<<i) != 0 && !slices.Contains(tags, t) {
				tags = append(tags, t)
			}
		}
	}
	return tags
}

// Fuel is what the filters have used.
func (c *Chain) Fuel() (n int64) {
	for _, u := range c.uses {
		n += u.run.Fuel
	}
	return n
}

// failure is what a call's error means. It is nil if the text passes.
func (u *use) failure(err error) error {
	switch e := err.(type) {
	case *apierror.Error:
		refused := *e
		refused.TryNext = false
		if refused.Cause == nil {
			refused.Cause = fmt.Errorf("refused by filter %s", u.filter.Config.Plugin)
		}
		return &refused
	case *plugin.CallError:
		if u.filter.Config.Pass {
			return nil
		}
		return e.FilterError()
	}
	return err
}

// Uncheckable is the failure of the filters at something that they cannot check, nil if it passes.
func (c *Chain) Uncheckable(what string) error {
	for _, u := range c.uses {
		if u.filter.Config.Response && !u.filter.Config.Pass {
			return &apierror.Error{
				Status: 502, Kind: apierror.KindServer, Code: "filter_failed", Message: "A filter of the gateway failed.",
				Cause: fmt.Errorf("filter %s cannot check %s", u.filter.Config.Plugin, what),
			}
		}
	}
	return nil
}

// passed is what the filters let pass of a piece of a text.
type passed struct {
	out  []byte // valid until the next piece of any text
	same bool   // out is the piece, and nothing is held, nor was
	edit bool   // a filter has replaced something
	cut  bool   // of a text that is not edited: a filter has changed it after out
}

// piece takes a piece of a text through the filters. whole is set for a text that must not be edited: the piece ends where a filter
// changes it.
func (c *Chain) piece(ctx context.Context, t *text, flags abi.TextFlags, in []byte, whole bool) (p passed, err error) {
	p.same = true
	ofRequest := flags&abi.TextOfRequest != 0
	for len(t.held) < len(c.uses) {
		t.held = append(t.held, nil)
	}
	for i, u := range c.uses {
		held := t.held[i]
		if ofRequest && !u.filter.Config.Request || !ofRequest && !u.filter.Config.Response || len(in)+len(held) == 0 {
			continue
		}
		r, err := u.filter.Binding.FilterText(ctx, &u.run, &plugin.Text{What: t.what, Choice: t.choice, Flags: flags, Held: held, New: in})
		if err != nil {
			if err := u.failure(err); err != nil {
				return p, err
			}
			u.join = append(append(u.join[:0], held...), in...)
			r = plugin.Filtered{Out: u.join}
		}
		p.same = p.same && !r.Changed && len(held) == 0 && r.Held == 0
		p.edit = p.edit || r.Changed
		if r.Changed && whole {
			r.Out, r.Held, p.cut = r.Out[:r.Kept], 0, true
			flags |= abi.TextComplete
		}
		if fresh := r.Held - len(in); fresh <= 0 {
			held = append(held[:0], in[len(in)-r.Held:]...)
		} else {
			held = append(append(held[:0], held[len(held)-fresh:]...), in...)
		}
		t.held[i], in = held, r.Out
	}
	p.out = in
	return p, nil
}

// holds reports whether a filter holds something of the text.
func (t *text) holds() bool {
	return slices.ContainsFunc(t.held, func(p []byte) bool { return len(p) > 0 })
}

// at returns the text with these names, making it if need be.
func (c *Chain) at(what abi.What, choice, key int32, part abi.ReasoningPart) *text {
	for _, t := range c.texts {
		if t.what == what && t.choice == choice && t.key == key && t.part == part {
			return t
		}
	}
	n := len(c.texts)
	if n < cap(c.texts) {
		c.texts = c.texts[:n+1]
	} else {
		c.texts = append(c.texts, nil)
	}
	if c.texts[n] == nil {
		c.texts[n] = new(text)
	}
	t := c.texts[n]
	t.what, t.choice, t.key, t.part = what, choice, key, part
	t.clear()
	return t
}

// whole takes a text that comes in one piece through the filters.
func (c *Chain) whole(ctx context.Context, what abi.What, choice int32, flags abi.TextFlags, in []byte) (passed, error) {
	c.one.what, c.one.choice = what, choice
	c.one.clear()
	return c.piece(ctx, &c.one, flags|abi.TextComplete, in, false)
}

// strings takes every string in a JSON value through the filters. It returns the value as they leave it, valid until the next call, or
// json itself. Of what is not JSON it is one text.
func (c *Chain) strings(ctx context.Context, what abi.What, choice int32, flags abi.TextFlags, json []byte) (out []byte, same bool, err error) {
	if c.doc.Parse(json, jsondoc.Limits{}) != nil {
		p, err := c.whole(ctx, what, choice, flags, json)
		return p.out, p.same, err
	}
	defer c.doc.Reset()
	c.edits.Reset(&c.doc)
	err = c.eachString(ctx, c.doc.Root(), what, choice, flags)
	if err != nil || c.edits.Len() == 0 {
		return json, true, err
	}
	c.args, err = c.edits.Apply(c.args[:0])
	return c.args, false, err
}

func (c *Chain) eachString(ctx context.Context, v jsondoc.Value, what abi.What, choice int32, flags abi.TextFlags) error {
	switch v.Kind() {
	case jsondoc.Object, jsondoc.Array:
		for m := v.First(); m.Exists(); m = m.Next() {
			if err := c.eachString(ctx, m, what, choice, flags); err != nil {
				return err
			}
		}
	case jsondoc.String:
		return c.value(ctx, v, what, choice, flags, &c.edits)
	}
	return nil
}

// value takes a string through the filters, and records an edit if they change it.
func (c *Chain) value(ctx context.Context, v jsondoc.Value, what abi.What, choice int32, flags abi.TextFlags, e *jsondoc.Edits) error {
	in := v.Inside()
	if v.Escaped() {
		c.plain = v.AppendText(c.plain[:0])
		in = c.plain
	}
	p, err := c.whole(ctx, what, choice, flags, in)
	if err == nil && !p.same {
		c.set(e, v, p.out)
	}
	return err
}

// set records that a string is replaced.
func (c *Chain) set(e *jsondoc.Edits, v jsondoc.Value, text []byte) {
	c.spell = append(jsondoc.AppendEscaped(append(c.spell[:0], '"'), text), '"')
	e.SetValueBytes(v, c.spell)
}

package filter

import (
	"context"
	"fmt"
	"slices"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Filter is an entry of [[filters]] with its plugin. It is safe for concurrent use.
type Filter struct {
	Config  *config.Filter
	Binding *plugin.Binding
}

// applies reports whether the filter is configured for requests with this client key, for this model, in this API.
func (f *Filter) applies(api, model, key string) bool {
	match := func(list []config.Glob, name string) bool {
		return slices.ContainsFunc(list, func(g config.Glob) bool { return g.Match(name) })
	}
	return slices.Contains(f.Config.APIs, api) && match(f.Config.Models, model) && match(f.Config.Keys, key)
}

// Chain holds the filters that apply to a request and its response, and their state. The zero value has no filters.
type Chain struct {
	stages                []*stage // elements beyond the length are reused
	onRequest, onResponse bool
	recorder              *Recorder // nil if the texts are not recorded
	*memory                         // nil until Begin finds a filter for the first time
}

// Recorder receives the texts that the filters of a plugin get, as far as they have arrived when they end.
type Recorder struct {
	Plugin string
	Text   func(f *config.Filter, what abi.What, text []byte) // text is only valid during the call
}

// memory is reused for each request with filters.
type memory struct {
	texts []*text // of the response; elements beyond the length are reused
	doc   jsondoc.Doc
	edits jsondoc.Edits

	requestEdits jsondoc.Edits // of the client's document
	plain        []byte        // scratch: an unescaped text
	escaped      []byte        // scratch: a JSON string
	json         []byte        // scratch: the result of filterStrings
	single       text          // scratch: a text that arrives in one piece
	uses         []telemetry.FilterUse
}

// stage is a filter in a chain, with its state for the request.
type stage struct {
	filter *Filter
	state  plugin.Filtering
	did    decision
	joined []byte // scratch: held and new text, if the filter fails and the text passes
}

// decision is what a filter has done with the texts of a request and its response, as far as they were passed to it. Of
// several, the highest counts.
type decision uint8

const (
	notCalled decision = iota
	passed
	changed
	failed // a call has failed, or the filter could not check a part of the response
	rejected
)

var decisionNames = [...]string{notCalled: "not_called", passed: "passed", changed: "changed", failed: "failed", rejected: "rejected"}

func (s *stage) record(d decision) { s.did = max(s.did, d) }

// text is a text of a response that arrives in pieces.
type text struct {
	what   abi.What
	choice int32
	key    int32 // of the reasoning block; 0 for other texts
	part   abi.ReasoningPart
	open   bool     // a piece has arrived, and the text is not complete
	held   [][]byte // end of the text that each filter holds back, by index in Chain.stages

	recorded [][]byte // what each filter of Chain.recorder has received, by index in Chain.stages
}

// Reset removes the filters and their state.
func (c *Chain) Reset() {
	if c.memory == nil {
		return
	}
	c.drop()
	for _, s := range c.stages {
		s.filter, s.did = nil, notCalled
		s.state.Reset()
	}
	c.stages, c.onRequest, c.onResponse, c.recorder = c.stages[:0], false, false, nil
	c.doc.Reset()
	c.requestEdits.Reset(nil)
}

// drop discards the held texts.
func (c *Chain) drop() {
	for _, t := range c.texts {
		c.endRecording(t)
		t.clear()
	}
	c.texts = c.texts[:0]
}

func (t *text) clear() {
	for i := range t.held {
		t.held[i] = t.held[i][:0]
	}
	t.open, t.recorded = false, nil
}

// Begin selects the filters for a request. If the client requested the model as PROVIDER/MODEL, own is the provider's
// name of the model, and filters for that name apply, too. Otherwise own is empty.
func (c *Chain) Begin(all []*Filter, api, model, own, key string) {
	for _, f := range all {
		if !f.applies(api, model, key) && (own == "" || !f.applies(api, own, key)) {
			continue
		}
		if c.memory == nil {
			c.memory = new(memory)
		}
		n := len(c.stages)
		if n < cap(c.stages) {
			c.stages = c.stages[:n+1]
		} else {
			c.stages = append(c.stages, nil)
		}
		if c.stages[n] == nil {
			c.stages[n] = new(stage)
		}
		s := c.stages[n]
		s.filter, s.state.Tenant, s.state.Tags = f, key, f.Config.Tags
		c.onRequest, c.onResponse = c.onRequest || f.Config.Request, c.onResponse || f.Config.Response
	}
}

// Record makes r receive the texts of the request and the response. nil records nothing.
func (c *Chain) Record(r *Recorder) { c.recorder = r }

// record records the next piece of a text for the filter of stage i.
func (c *Chain) record(t *text, i int, piece []byte) {
	for len(t.recorded) < len(c.stages) {
		t.recorded = append(t.recorded, nil)
	}
	if c.stages[i].filter.Config.Plugin == c.recorder.Plugin {
		t.recorded[i] = append(t.recorded[i], piece...)
	}
}

// endRecording passes what has been recorded of a text to the recorder.
func (c *Chain) endRecording(t *text) {
	for i, all := range t.recorded {
		if len(all) > 0 {
			c.recorder.Text(c.stages[i].filter.Config, t.what, all)
		}
	}
	t.recorded = nil
}

// OnRequest and OnResponse report whether any filter applies to the texts of the request, or of the response.
func (c *Chain) OnRequest() bool  { return c.onRequest }
func (c *Chain) OnResponse() bool { return c.onResponse }

// ReadsRequest reports whether a filter reads the document that describes the request.
func (c *Chain) ReadsRequest() bool {
	return slices.ContainsFunc(c.stages, func(s *stage) bool { return s.filter.Binding.ReadsRequest() })
}

// AppendTags appends the tags that filters have set, in the order of the configuration and without duplicates.
func (c *Chain) AppendTags(tags []string) []string {
	for _, s := range c.stages {
		for i, t := range s.state.Tags {
			if s.state.Set&(1<<i) != 0 && !slices.Contains(tags, t) {
				tags = append(tags, t)
			}
		}
	}
	return tags
}

// Uses describes the filters for the record of the request. The result is valid until Reset.
func (c *Chain) Uses() []telemetry.FilterUse {
	if c.memory == nil {
		return nil
	}
	c.uses = c.uses[:0]
	for _, s := range c.stages {
		p := s.filter.Binding.Plugin()
		c.uses = append(c.uses, telemetry.FilterUse{
			Plugin: telemetry.PluginUse{Name: p.Name(), Digest: p.Digest(), Fuel: s.state.Fuel}, Decision: decisionNames[s.did],
		})
	}
	return c.uses
}

// Fuel returns the fuel that the filters have used.
func (c *Chain) Fuel() (n int64) {
	for _, s := range c.stages {
		n += s.state.Fuel
	}
	return n
}

// failure returns the error that ends the request after a filter call has failed with err, or nil if the text passes.
func (s *stage) failure(err error) error {
	switch e := err.(type) {
	case *apierror.Error:
		s.record(rejected)
		final := *e
		final.TryNext = false
		if final.Cause == nil {
			final.Cause = fmt.Errorf("rejected by filter %s", s.filter.Config.Plugin)
		}
		return &final
	case *plugin.CallError:
		s.record(failed)
		if s.filter.Config.Pass {
			return nil
		}
		return e.FilterError()
	}
	return err
}

// Uncheckable returns the error for a part of the response that filters cannot read, or nil if it passes unchecked.
func (c *Chain) Uncheckable(what string) error {
	for _, s := range c.stages {
		if s.filter.Config.Response && !s.filter.Config.Pass {
			s.record(failed)
			return &apierror.Error{
				Status: 502, Kind: apierror.KindServer, Code: "filter_failed", Message: "A filter of the gateway failed.",
				Cause: fmt.Errorf("filter %s cannot check %s", s.filter.Config.Plugin, what),
			}
		}
	}
	return nil
}

// pieceResult is the result of filtering a piece of a text.
type pieceResult struct {
	out       []byte // the text to send; valid until the next piece of any text
	unchanged bool   // out equals the piece, and no filter holds or held any of the text
	edited    bool   // a filter has replaced something
	cut       bool   // the text must not be edited, so it ends with out, before a filter's first change
}

// filterPiece passes a piece of a text through the filters. If noEdits is set, the text is cut off before the first
// change of a filter instead of edited.
func (c *Chain) filterPiece(ctx context.Context, t *text, flags abi.TextFlags, in []byte, noEdits bool) (p pieceResult, err error) {
	p.unchanged = true
	ofRequest := flags&abi.TextOfRequest != 0
	for len(t.held) < len(c.stages) {
		t.held = append(t.held, nil)
	}
	if c.recorder != nil {
		defer func() {
			if err != nil || p.cut || flags&abi.TextComplete != 0 {
				c.endRecording(t)
			}
		}()
	}
	for i, s := range c.stages {
		held := t.held[i]
		if ofRequest && !s.filter.Config.Request || !ofRequest && !s.filter.Config.Response || len(in)+len(held) == 0 {
			continue
		}
		if c.recorder != nil {
			c.record(t, i, in)
		}
		r, err := s.filter.Binding.FilterText(ctx, &s.state, &plugin.Text{What: t.what, Choice: t.choice, Flags: flags, Held: held, New: in})
		if err != nil {
			if err := s.failure(err); err != nil {
				return p, err
			}
			s.joined = append(append(s.joined[:0], held...), in...)
			r = plugin.Filtered{Out: s.joined}
		} else if s.record(passed); r.Changed {
			s.record(changed)
		}
		p.unchanged = p.unchanged && !r.Changed && len(held) == 0 && r.Held == 0
		p.edited = p.edited || r.Changed
		if r.Changed && noEdits {
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

// holds reports whether a filter holds back a part of the text.
func (t *text) holds() bool {
	return slices.ContainsFunc(t.held, func(p []byte) bool { return len(p) > 0 })
}

// textOf returns the state of the text that these values identify. It adds an empty one if there is none.
func (c *Chain) textOf(what abi.What, choice, key int32, part abi.ReasoningPart) *text {
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

// filterWhole passes a text that arrives in one piece through the filters.
func (c *Chain) filterWhole(ctx context.Context, what abi.What, choice int32, flags abi.TextFlags, in []byte) (pieceResult, error) {
	c.single.what, c.single.choice = what, choice
	c.single.clear()
	return c.filterPiece(ctx, &c.single, flags|abi.TextComplete, in, false)
}

// filterStrings passes every string in a JSON value through the filters. It returns the edited value, valid until the
// next call, or json itself if nothing changed. If json is not valid JSON, it is filtered as a single text.
func (c *Chain) filterStrings(ctx context.Context, what abi.What, choice int32, flags abi.TextFlags, json []byte) (out []byte, unchanged bool, err error) {
	if c.doc.Parse(json, jsondoc.Limits{}) != nil {
		p, err := c.filterWhole(ctx, what, choice, flags, json)
		return p.out, p.unchanged, err
	}
	defer c.doc.Reset()
	c.edits.Reset(&c.doc)
	err = c.filterValue(ctx, c.doc.Root(), what, choice, flags)
	if err != nil || c.edits.Len() == 0 {
		return json, true, err
	}
	c.json, err = c.edits.Apply(c.json[:0])
	return c.json, false, err
}

// filterValue passes every string in v through the filters, and records their changes in c.edits.
func (c *Chain) filterValue(ctx context.Context, v jsondoc.Value, what abi.What, choice int32, flags abi.TextFlags) error {
	switch v.Kind() {
	case jsondoc.Object, jsondoc.Array:
		for m := v.First(); m.Exists(); m = m.Next() {
			if err := c.filterValue(ctx, m, what, choice, flags); err != nil {
				return err
			}
		}
	case jsondoc.String:
		return c.filterString(ctx, v, what, choice, flags, &c.edits)
	}
	return nil
}

// filterString passes a string through the filters, and records an edit if they change it.
func (c *Chain) filterString(ctx context.Context, v jsondoc.Value, what abi.What, choice int32, flags abi.TextFlags, e *jsondoc.Edits) error {
	in := v.Inside()
	if v.Escaped() {
		c.plain = v.AppendText(c.plain[:0])
		in = c.plain
	}
	p, err := c.filterWhole(ctx, what, choice, flags, in)
	if err == nil && !p.unchanged {
		c.replaceString(e, v, p.out)
	}
	return err
}

// replaceString records an edit that replaces a string with text.
func (c *Chain) replaceString(e *jsondoc.Edits, v jsondoc.Value, text []byte) {
	c.escaped = append(jsondoc.AppendEscaped(append(c.escaped[:0], '"'), text), '"')
	e.SetValueBytes(v, c.escaped)
}

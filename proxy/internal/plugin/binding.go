package plugin

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-gateway/sluice/proxy/internal/openai/native"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/fairqueue"
	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// BindingConfig describes one use of a plugin in the configuration: a provider, a filter or the router.
type BindingConfig struct {
	Name     string // the provider's name, for errors and logs
	Settings []byte // the plugin's settings as a JSON object; nil is an empty one

	// Paths are the patterns of the upstream paths that the plugin may request; see pattern. Headers are the names of
	// the request headers that it may set.
	Paths   []string
	Headers []string

	// CredentialHeader and CredentialQuery are the header or query parameter in which the host sends the credential.
	// The plugin may set neither.
	CredentialHeader string
	CredentialQuery  string

	// Redact removes the values of configured credentials from a text. It may return its argument, and keeps no
	// reference to it. The host applies it to error bodies and response headers before the plugin gets them, and to
	// failures, warnings, log lines, explanations and finish reasons of the plugin before it uses them. nil disables
	// redaction.
	Redact func([]byte) []byte
	// Searches returns how many times Redact passes over a text, for which calls are charged. nil means once.
	Searches func() int
}

// Binding is one use of a plugin, and makes the calls for it. It is safe for concurrent use; an Attempt is not.
//
// The calls of an attempt are made one after the other, Request first. Each returns nil, or
//
//   - an *apierror.Error: the plugin has reported a failure of the request or of the provider, or the response has
//     grown too large;
//   - a *CallError: the plugin has failed, and the call has no effect;
//   - another error: the call was not made, because ctx ended while it waited or the Set is closed.
type Binding struct {
	plugin          *Plugin
	index           int32
	name            string
	settings        []byte
	forms           abi.Forms       // set by Bind
	reads           abi.RouterParts // set by Bind
	summary         abi.SummaryParts
	filterReads     abi.FilterParts
	requests        *requestTree // nil if calls of provider_request are not predicted
	paths           []pattern
	headers         map[string]bool
	credentialQuery string
	redactor        func([]byte) []byte
	searchCount     func() int
}

func newBinding(p *Plugin, c BindingConfig) (*Binding, error) {
	b := &Binding{
		plugin:          p,
		name:            c.Name,
		settings:        append([]byte(nil), c.Settings...),
		credentialQuery: c.CredentialQuery,
		redactor:        c.Redact,
		searchCount:     c.Searches,
	}
	if len(b.settings) == 0 {
		b.settings = []byte("{}")
	}
	if _, err := compactObject(b.settings); err != nil {
		return nil, fmt.Errorf("settings: %w", err)
	}
	for _, s := range c.Paths {
		p, err := parsePattern(s)
		if err != nil {
			return nil, err
		}
		b.paths = append(b.paths, p)
	}
	var err error
	if b.headers, err = parseAllowedHeaders(c.Headers, c.CredentialHeader); err != nil {
		return nil, err
	}
	return b, nil
}

// Name returns BindingConfig.Name.
func (b *Binding) Name() string { return b.name }

// Forms returns the formats of requests that the provider accepts in addition to chat completions, as far as this host
// knows them. A request in one of them is passed in Attempt.Request as its client wrote it, with Summary.Form set.
func (b *Binding) Forms() abi.Forms { return b.forms }

// Reads returns the parts of the compact input that a router reads. ok is false for a router that receives the document.
func (b *Binding) Reads() (parts abi.RouterParts, ok bool) {
	return b.reads, b.plugin.exports[exportReads]
}

// Plugin returns the plugin that the binding uses.
func (b *Binding) Plugin() *Plugin { return b.plugin }

// searches returns how many times redact passes over a text.
func (b *Binding) searches() int64 {
	switch {
	case b.redactor == nil:
		return 0
	case b.searchCount == nil:
		return 1
	}
	return int64(b.searchCount())
}

func (b *Binding) redact(p []byte) []byte {
	if b.redactor == nil || len(p) == 0 {
		return p
	}
	return b.redactor(p)
}

// Request starts an attempt, with an empty state slot: it asks the plugin for the upstream request, or for the response
// if the plugin responds itself.
func (b *Binding) Request(ctx context.Context, a *Attempt) error {
	a.state = a.state[:0]
	a.reader.reset(native.Options{})
	return b.call(ctx, &invocation{export: exportRequest, attempt: a, ticket: &a.ticket}, a.tenant())
}

// Response passes a non-streaming response to the plugin: an error body, or one JSON document.
func (b *Binding) Response(ctx context.Context, a *Attempt, status int, body []byte) error {
	if status >= 300 {
		body = b.redact(body)
	} else if err := a.checkJSON("the response", body); err != nil {
		return err
	}
	inv := invocation{export: exportResponse, number: int32(status), first: body, attempt: a, header: a.ResponseHeader, ticket: &a.ticket}
	return b.call(ctx, &inv, a.tenant())
}

// Event passes one event of a streaming response to the plugin.
func (b *Binding) Event(ctx context.Context, a *Attempt, kind abi.EventKind, name, data []byte) error {
	if kind != abi.EventPlain {
		data = b.redact(data)
	} else if err := a.checkJSON("an event", data); err != nil {
		return err
	}
	inv := invocation{export: exportEvent, number: int32(kind), first: name, second: data, attempt: a, header: a.ResponseHeader, ticket: &a.ticket}
	return b.call(ctx, &inv, a.tenant())
}

// End reports to the plugin that the body of a streaming response has ended cleanly. Whether the response is complete
// is up to the response writer.
func (b *Binding) End(ctx context.Context, a *Attempt) error {
	if !b.plugin.exports[exportEnd] {
		return nil
	}
	return b.call(ctx, &invocation{export: exportEnd, attempt: a, header: a.ResponseHeader, ticket: &a.ticket}, a.tenant())
}

// List asks the plugin for the upstream request of one page of the model list. An empty cursor means the first page.
// For a provider without a model list, the OutRequest has no path.
func (b *Binding) List(ctx context.Context, cursor []byte) (OutRequest, error) {
	if !b.plugin.exports[exportList] || !b.plugin.exports[exportModels] {
		return OutRequest{}, nil
	}
	var r result
	err := b.call(ctx, &invocation{export: exportList, first: cursor, result: &r}, tenant{})
	return r.out, err
}

// Models passes the response to List's request to the plugin. header is like Attempt.ResponseHeader.
func (b *Binding) Models(ctx context.Context, status int, header func(name []byte) []byte, body []byte) (Page, error) {
	if status >= 300 {
		body = b.redact(body)
	}
	var r result
	err := b.call(ctx, &invocation{export: exportModels, number: int32(status), first: body, header: header, result: &r}, tenant{})
	return r.page, err
}

// Choose asks the router for the order in which to try n targets. input is the document that describes them or, if Reads
// returns any parts, either that or the compact input. An empty order means that the router has no preference.
//
// The call's tenant is unknown, so unless instances are shared it needs an instance that serves no other call.
// ChooseFor avoids that.
func (b *Binding) Choose(ctx context.Context, input []byte, n int) (order []int, explain string, err error) {
	return b.choose(ctx, tenant{kind: tenantUnknown}, input, n)
}

// ChooseFor is Choose for a request made with the gateway key of this name.
func (b *Binding) ChooseFor(ctx context.Context, key string, input []byte, n int) (order []int, explain string, err error) {
	return b.choose(ctx, tenant{tenantKey, key}, input, n)
}

func (b *Binding) choose(ctx context.Context, t tenant, input []byte, n int) (order []int, explain string, err error) {
	var r result
	err = b.call(ctx, &invocation{export: exportChoose, first: input, candidates: n, result: &r, ticket: &r.ticket}, t)
	return r.order, r.explain, err
}

// call makes one call on an instance from the pool.
//
// A trap, or running out of memory, is retried once on a fresh instance if the first one had served other calls: they
// may be the cause, because they have filled or corrupted the guest's heap. The retry is safe, because the failed call
// has had no effect. It is limited to this case, because a call on a fresh instance is deterministic and would only
// fail again. Other failures are not retried: they mostly follow from the input, and an endless loop must not cost
// twice.
func (b *Binding) call(ctx context.Context, inv *invocation, t tenant) error {
	p := b.plugin
	inv.binding = b
	if !p.exports[inv.export] {
		return &CallError{Plugin: p.name, Binding: b.name, Call: inv.export.String(), Kind: KindProtocol, Reason: "the plugin does not export it"}
	}
	counted := t.kind != tenantShadow && !p.host.options.NoBreaker // by the circuit breaker
	if counted && (exports[inv.export].begins || inv.begins) {
		if wait := p.breaker.admit(inv.ticket, t); wait > 0 {
			p.counts.recordFailure(KindOpen)
			return &CallError{Plugin: p.name, Binding: b.name, Call: inv.export.String(), Kind: KindOpen, Wait: wait}
		}
	}
	if inv.export == exportRequest && b.requests != nil {
		if p.replay(inv) {
			if counted {
				p.breaker.recordSuccess(inv.ticket, t, inv.provesHealth())
			}
			return nil
		}
	}
	whole := exports[inv.export].whole || inv.export == exportFilterText && len(inv.first)+len(inv.second) > largeText
	limit := p.host.options.Wait
	if exports[inv.export].phase == abi.PhaseAnswer || inv.export == exportFilterText && inv.flags&abi.TextOfRequest == 0 {
		limit *= responseWaitFactor
	} else if t.kind == tenantShadow {
		limit = 0
	}
	var used int64
	if whole {
		waited, err := p.host.whole.Acquire(ctx, flow{Group: p.name, Member: t}, limit)
		if waited {
			p.counts.waits.Add(1)
		}
		if err != nil {
			return b.notCalled(inv.export, err)
		}
		defer func() { p.host.whole.Release(flow{Group: p.name, Member: t}, used) }()
	}
	in, waited, err := p.pool.acquire(ctx, t, whole, limit)
	if waited {
		p.counts.waits.Add(1)
	}
	for fresh := false; ; fresh = true {
		if err != nil {
			return b.notCalled(inv.export, err)
		}
		retryable := !fresh && in.served > 0 // if it fails by a trap
		usable, failed, result := p.serve(ctx, in, inv, t, fresh)
		used += in.spent
		if usable {
			p.release(in)
			if inv.ticket != nil && counted {
				p.breaker.recordSuccess(inv.ticket, t, inv.provesHealth())
			}
			return result
		}
		if failed == nil {
			p.pool.discard(in)
			return b.notCalled(inv.export, result)
		}
		oversized := inv.oversized(failed)
		if oversized == nil {
			p.counts.recordFailure(failed.Kind)
		}
		if !retryable || (failed.Kind != KindTrap && failed.Kind != KindMemory) || inv.attempt != nil && inv.attempt.reader.dirty {
			p.replace(ctx, in, b, failed)
			if oversized != nil {
				return oversized
			}
			if inv.ticket != nil && counted && !p.host.options.Dev {
				p.breaker.recordFailure(inv.ticket, t)
			}
			return failed
		}
		p.counts.retries.Add(1)
		in, err = p.renew(ctx, in, b, failed)
	}
}

// responseWaitFactor multiplies Options.Wait for calls that read a response, because the provider has already charged
// for it and the client may have a part of it. Thousands of streams can have events at the same moment.
const responseWaitFactor = 2

// provesHealth reports whether the success of this call shows that the plugin works. Translating the request does not,
// unless it was the plugin's only task in the attempt.
func (inv *invocation) provesHealth() bool {
	return inv.export != exportRequest || inv.attempt.Answered || inv.attempt.Dialect != abi.DialectTranslated
}

// serve makes a call on an instance that the caller has acquired. There are three outcomes:
//
//   - usable: the call succeeded and result is its result, possibly an *apierror.Error. The instance can serve again.
//   - failed is set: the plugin has failed, or the gateway has panicked. The instance must not serve again as it is.
//   - neither: the call could not be made, for the reason in result. The instance must not serve again.
func (p *Plugin) serve(ctx context.Context, in *instance, inv *invocation, t tenant, fresh bool) (usable bool, failed *CallError, result error) {
	defer rescue.Recover(func(e *rescue.Error) {
		usable, failed, result = false, p.panicked(inv.export, e), nil
		failed.Binding = inv.binding.name
	})
	if err := in.prepare(ctx, inv.binding, t, fresh); err != nil {
		e, ok := errors.AsType[*CallError](err)
		if !ok {
			return false, nil, err
		}
		e.Binding = inv.binding.name
		return false, e, nil
	}
	failed, result = in.serve(inv, t)
	return failed == nil, failed, result
}

// notCalled returns the error for a call that was not made because of err.
func (b *Binding) notCalled(e export, err error) error {
	if errors.Is(err, fairqueue.ErrBusy) {
		b.plugin.counts.recordFailure(KindBusy)
		return &CallError{Plugin: b.plugin.name, Binding: b.name, Call: e.String(), Kind: KindBusy}
	}
	var failed *CallError
	if errors.As(err, &failed) {
		failed.Binding = b.name
		return failed
	}
	return fmt.Errorf("plugin %s: %s: %w", b.plugin.name, e, err)
}

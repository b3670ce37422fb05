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

// BindingConfig is one use that the configuration makes of a plugin: a provider, or the router.
type BindingConfig struct {
	Name     string // the provider's name, for errors and logs
	Settings []byte // its own table as a JSON object; nil is an empty one

	// Paths are the upstream paths that the plugin may ask for; see pattern. Headers are the names of the request
	// headers that it may set.
	Paths   []string
	Headers []string

	// CredentialHeader and CredentialQuery are where the host puts the credential: the plugin may use neither.
	CredentialHeader string
	CredentialQuery  string

	// Redact takes configured credentials out of a text, by their values. It may return its argument, and keeps
	// nothing. It is applied to error bodies and response headers before the plugin gets them, and to the plugin's own
	// failures, warnings, log lines, explanations and finish reasons before anything else does. nil: nothing is redacted.
	Redact func([]byte) []byte
	// Searches is how many times Redact goes through a text, which calls are charged for. nil: once.
	Searches func() int
}

// Binding calls a plugin for one of its uses. It is safe for concurrent use; an Attempt is not.
//
// The calls of an attempt are made one after the other, Request first. Each returns nil, or
//
//   - a *apierror.Error: the plugin has rejected the request, or the response has grown too large;
//   - a *CallError: the plugin has failed in this call, which has no effect;
//   - another error: the call was not made, because ctx ended in a wait or the Set is closed.
type Binding struct {
	plugin          *Plugin
	index           int32
	name            string
	settings        []byte
	forms           abi.Forms // set by Bind
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

// Name returns the name that the binding was made with.
func (b *Binding) Name() string { return b.name }

// Forms are the forms of requests that the provider accepts besides chat completions, as far as this host knows them. A request in
// one of them is passed in Attempt.Request as its client wrote it, with Summary.Form set.
func (b *Binding) Forms() abi.Forms { return b.forms }

// Plugin returns the plugin that the binding uses.
func (b *Binding) Plugin() *Plugin { return b.plugin }

// searches returns how many times redact goes through a text.
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

// Request asks the plugin for the upstream request of an attempt, or for its response if it responds itself. It
// starts the attempt: the state slot is empty.
func (b *Binding) Request(ctx context.Context, a *Attempt) error {
	a.state = a.state[:0]
	a.reader.reset(native.Options{})
	return b.call(ctx, &invocation{export: exportRequest, attempt: a, ticket: &a.ticket}, a.tenant())
}

// Response passes a non-streaming response to the plugin: an error, or one JSON document.
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

// End tells the plugin that the body of a streaming response has ended cleanly. The response writer decides whether the
// response is complete.
func (b *Binding) End(ctx context.Context, a *Attempt) error {
	if !b.plugin.exports[exportEnd] {
		return nil
	}
	return b.call(ctx, &invocation{export: exportEnd, attempt: a, header: a.ResponseHeader, ticket: &a.ticket}, a.tenant())
}

// List asks the plugin for the request for a page of its model list; an empty cursor is the first page. A provider
// without a list returns an OutRequest without a path.
func (b *Binding) List(ctx context.Context, cursor []byte) (OutRequest, error) {
	if !b.plugin.exports[exportList] || !b.plugin.exports[exportModels] {
		return OutRequest{}, nil
	}
	var r result
	err := b.call(ctx, &invocation{export: exportList, first: cursor, result: &r}, tenant{})
	return r.out, err
}

// Models passes the response to List's request to the plugin. header is as Attempt.ResponseHeader.
func (b *Binding) Models(ctx context.Context, status int, header func(name []byte) []byte, body []byte) (Page, error) {
	if status >= 300 {
		body = b.redact(body)
	}
	var r result
	err := b.call(ctx, &invocation{export: exportModels, number: int32(status), first: body, header: header, result: &r}, tenant{})
	return r.page, err
}

// Choose asks the router for the order in which to try n targets. input is the document that describes them. An empty
// order means that the router has no preference.
//
// The call has no known tenant: unless instances are shared, it runs on one that serves no other call. ChooseFor avoids
// that.
func (b *Binding) Choose(ctx context.Context, input []byte, n int) (order []int, explain string, err error) {
	return b.choose(ctx, tenant{kind: tenantUnknown}, input, n)
}

// ChooseFor is Choose for a request of the gateway key with this name.
func (b *Binding) ChooseFor(ctx context.Context, key string, input []byte, n int) (order []int, explain string, err error) {
	return b.choose(ctx, tenant{tenantKey, key}, input, n)
}

func (b *Binding) choose(ctx context.Context, t tenant, input []byte, n int) (order []int, explain string, err error) {
	var r result
	err = b.call(ctx, &invocation{export: exportChoose, first: input, candidates: n, result: &r, ticket: &r.ticket}, t)
	return r.order, r.explain, err
}

// call makes one call on an instance of the pool.
//
// A trap is retried once, on a fresh instance, if the first one had served before: then earlier calls may be the cause, by
// a full or corrupted heap. Rule 17 makes the retry worthwhile and safe: on a fresh instance
// the same input gives the same result, and nothing of the first try has taken effect. On an instance that was fresh
// itself the retry would trap again. So would every retry of a call that ran out of fuel, nested too deep, wrote
// too much or broke the contract, as far as the input is the reason; and an endless loop must not cost twice.
func (b *Binding) call(ctx context.Context, inv *invocation, t tenant) error {
	p := b.plugin
	inv.binding = b
	if !p.exports[inv.export] {
		return &CallError{Plugin: p.name, Binding: b.name, Call: inv.export.String(), Kind: KindProtocol, Reason: "the plugin does not export it"}
	}
	judged := t.kind != tenantShadow // by the circuit breaker
	if judged && (exports[inv.export].begins || inv.begins) {
		if wait := p.breaker.admit(inv.ticket, t); wait > 0 {
			p.counts.recordFailure(KindOpen)
			return &CallError{Plugin: p.name, Binding: b.name, Call: inv.export.String(), Kind: KindOpen, Wait: wait}
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
		again := !fresh && in.served > 0
		kept, failed, result := p.serve(ctx, in, inv, t, fresh)
		used += in.spent
		if kept {
			p.release(in)
			if inv.ticket != nil && judged {
				p.breaker.recordSuccess(inv.ticket, t, inv.provesHealth())
			}
			return result
		}
		if failed == nil {
			p.pool.discard(in)
			return b.notCalled(inv.export, result)
		}
		excess := inv.excess(failed)
		if excess == nil {
			p.counts.recordFailure(failed.Kind)
		}
		if !again || (failed.Kind != KindTrap && failed.Kind != KindMemory) || inv.attempt != nil && inv.attempt.reader.dirty {
			p.replace(ctx, in, b, failed)
			if excess != nil {
				return excess
			}
			if inv.ticket != nil && judged && !p.host.options.Dev {
				p.breaker.recordFailure(inv.ticket, t)
			}
			return failed
		}
		p.counts.retries.Add(1)
		in, err = p.renew(ctx, in, b, failed)
	}
}

// responseWaitFactor is how much longer calls wait that read a response: it has been paid for, and its client
// may have a part of it. Thousands of streams can have events at the same moment.
const responseWaitFactor = 10

// provesHealth reports whether the call, which has succeeded, shows that the plugin works: a request alone does not, unless
// there is nothing more for the plugin to do.
func (inv *invocation) provesHealth() bool {
	return inv.export != exportRequest || inv.attempt.Answered || inv.attempt.Dialect != abi.DialectTranslated
}

// serve makes a call on an instance that the caller has acquired. The instance is kept if the call succeeded, whether its
// result is an error or not. Otherwise it must not serve again, and either the plugin has failed, or, with the result as
// the error, the call could not be made. A panic of the gateway fails this call only.
func (p *Plugin) serve(ctx context.Context, in *instance, inv *invocation, t tenant, fresh bool) (kept bool, failed *CallError, result error) {
	defer rescue.Recover(func(e *rescue.Error) {
		kept, failed, result = false, p.panicked(inv.export, e), nil
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

// notCalled returns the error of a call that was not made.
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

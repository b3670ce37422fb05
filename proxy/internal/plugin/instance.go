package plugin

import (
	"context"
	"fmt"

	"github.com/sluice-gateway/sluice/sdk/abi"
)

// instance is a running copy of a plugin, with the state of its current call. While idle it belongs to its pool,
// otherwise to one call at a time.
type instance struct {
	plugin *Plugin
	guest  runner
	call   call
	args   args

	configured  []bool   // bindings that it is configured for, by index
	owner       *Binding // the only binding that an unshared instance is configured for; nil before the first
	served      uint64   // calls served since the guest was started or restored, without sluice_configure
	last        tenant   // tenant of the last call that it served
	uncollected bool     // calls were served since sluice_collect last ran
	spent       int64    // fuel used since the pool was last charged for it
	idleSince   int64    // the Host's tick when it was released
}

func (in *instance) close() { in.guest.close() }

// prepare makes the instance ready to serve t through b: configured for b, and without data that t must not see. If
// fresh is set, it must not contain data of any earlier call. On an error the instance must be discarded.
func (in *instance) prepare(ctx context.Context, b *Binding, t tenant, fresh bool) error {
	isolation := in.plugin.pool.isolation
	reusable := in.served == 0 || !fresh && isolation.allows(in.last, t)
	if reusable && (isolation == Shared || in.owner == nil || in.owner == b) {
		return in.configure(ctx, b)
	}
	return in.reset(ctx, b)
}

// configure passes a binding's settings to the instance, once. If instances are not shared, the first one that is
// configured for a binding also saves an image, to which every instance of the plugin can be restored.
func (in *instance) configure(ctx context.Context, b *Binding) error {
	if int(b.index) < len(in.configured) && in.configured[b.index] {
		return nil
	}
	err := in.run(&invocation{export: exportConfigure, binding: b, first: b.settings})
	if err == nil {
		in.call.noteUnknown()
	}
	in.call.end()
	if err != nil {
		return err
	}
	in.markConfigured(b)
	if in.plugin.pool.isolation == Shared {
		return nil
	}
	if !in.plugin.saveImage(in, b) {
		return in.reset(ctx, b)
	}
	return nil
}

// markConfigured records that the instance is configured for a binding.
func (in *instance) markConfigured(b *Binding) {
	for int(b.index) >= len(in.configured) {
		in.configured = append(in.configured, false)
	}
	in.configured[b.index] = true
	if in.plugin.pool.isolation != Shared {
		in.owner = b
	}
}

// reset returns the instance to the state right after configuration for b: from the binding's image, or with a new
// guest.
func (in *instance) reset(ctx context.Context, b *Binding) error {
	in.served, in.uncollected, in.owner = 0, false, nil
	clear(in.configured)
	clear(in.call.known)
	if in.plugin.images.restore(b, in.guest) {
		in.markConfigured(b)
		return nil
	}
	in.guest.close()
	if err := in.plugin.start(ctx, in); err != nil {
		return err
	}
	return in.configure(ctx, b)
}

// revive resets the instance after a failed call, from the binding's image only. If it returns false, the instance must
// be discarded.
func (in *instance) revive(b *Binding) bool {
	if !in.plugin.images.revive(b, in.guest) {
		return false
	}
	in.served, in.uncollected, in.owner, in.last = 0, false, nil, tenant{}
	clear(in.configured)
	clear(in.call.known)
	in.markConfigured(b)
	return true
}

// serve makes one call on a prepared instance and commits its output. failed means that the plugin has failed, and the
// caller must not use the instance again before it is restored. Otherwise result is the outcome of the call, and the
// caller releases the instance.
func (in *instance) serve(inv *invocation, t tenant) (failed *CallError, result error) {
	defer in.call.end()
	in.served++
	in.last, in.uncollected = t, true
	if err := in.run(inv); err != nil {
		return err, nil
	}
	err := in.call.commit()
	if err == nil {
		in.call.recorder.commit(in.call.first)
	}
	if e, ok := err.(*CallError); ok {
		return in.addNames(e), nil
	}
	in.call.noteMistakes()
	return nil, err
}

// declared calls sluice_forms, provider_reads, router_reads or filter_reads, whose result is a bit set and not a status.
func (in *instance) declared(e export, b *Binding) (int32, *CallError) {
	defer in.call.end()
	set, err := in.execute(&invocation{export: e, binding: b})
	if err == nil && set < 0 {
		err = in.addNames(&CallError{Kind: KindProtocol, Reason: fmt.Sprintf("returned %d, not a valid set of %s", set, declares(e))})
	}
	return set, err
}

// declares returns what the bits of an export's result stand for, or "" if its result is a status.
func declares(e export) string {
	switch e {
	case exportForms:
		return "forms"
	case exportReads, exportSummary, exportFilterReads:
		return "parts"
	}
	return ""
}

// run makes one call without committing it. A status other than 0 is a failure.
func (in *instance) run(inv *invocation) *CallError {
	status, err := in.execute(inv)
	if err == nil && status != 0 {
		err = in.statusError(status)
	}
	return err
}

// execute makes one call without committing it, accounts its fuel, and returns the export's result.
func (in *instance) execute(inv *invocation) (int32, *CallError) {
	c := &in.call
	c.begin(inv)
	if inv.export == exportRequest {
		c.recorder.begin(inv.binding.requests, c.first)
	}
	p := in.plugin
	budget := p.host.options.Fuel.budget(inv.export, c.inputSize())
	if replace := p.host.options.Budget; replace != nil {
		budget = replace(inv.export.String(), budget)
	}
	if c.trace.tracer != nil {
		c.trace.begin(c)
	}
	result, used, err := in.guest.run(in, budget)
	if c.trace.tracer != nil {
		c.trace.end(used, result, c.err, err)
	}
	p.counts.calls.Add(1)
	p.counts.fuel.Add(used)
	in.spent += used
	if inv.attempt != nil {
		inv.attempt.Fuel += used
	}
	if inv.filtering != nil {
		inv.filtering.Fuel += used
	}
	c.phase = 0
	c.logOutput(c.err != nil || err != nil || result != 0 && declares(inv.export) == "")
	switch {
	case c.err != nil:
		// An import has recorded this error and stopped the guest, so err only says that it was stopped.
		if c.err.Err == nil {
			c.err.Err = err
		}
		return 0, p.logStack(in.addNames(c.err))
	case err != nil:
		e := newFailure(inv.export.String(), err)
		switch {
		case e.Kind == KindOutOfFuel && e.Reason == "":
			e.Reason = fmt.Sprintf("all %d units of the call", used)
		case e.Kind == KindMemory && e.Reason == "" && p.module != nil:
			e.Reason = fmt.Sprintf("more than the %d MiB that memory in [plugins.%s] allows", p.module.MemoryLimit()>>20, p.name)
		}
		e.GuestMessage = c.guestMessage()
		return 0, p.logStack(in.addNames(e))
	}
	return result, nil
}

// statusError returns the failure of a call that has returned a status other than 0.
func (in *instance) statusError(status int32) *CallError {
	c, e := &in.call, &CallError{Kind: KindStatus, Reason: fmt.Sprintf("status %d", status)}
	// The plugin may have given up because the host has refused something, and only the host has the reason.
	if refused := c.refusedRequest(); refused != nil {
		e.Kind, e.Reason = KindProtocol, e.Reason+": "+refused.Error()
	}
	if e.GuestMessage = c.guestMessage(); e.GuestMessage == "" && e.Kind == KindStatus {
		e.Reason += ", and the plugin logged no error"
	}
	return in.addNames(e)
}

// addNames adds the plugin, binding and call to an error.
func (in *instance) addNames(e *CallError) *CallError {
	e.Plugin = in.plugin.name
	if b := in.call.binding; b != nil {
		e.Binding, e.Call = b.name, in.call.export.String()
	}
	return e
}

// collect runs sluice_collect in the guest. On an error the instance must be discarded.
func (in *instance) collect() error {
	in.uncollected = false
	in.call.err, in.call.running, in.call.phase = nil, -1, abi.PhaseConfigure
	err := in.guest.collect(in.plugin.host.options.Fuel.Call)
	in.call.phase = 0
	in.call.logOutput(in.call.err != nil || err != nil)
	if in.call.err != nil {
		return in.call.err
	}
	return err
}

package plugin

import (
	"context"
	"fmt"

	"github.com/sluice-gateway/sluice/sdk/abi"
)

// instance is one running copy of a plugin, with the call that it is in. It belongs to its pool while it is idle, and to
// one call at a time otherwise.
type instance struct {
	plugin *Plugin
	guest  runner
	call   call
	args   args

	configured  []bool   // by the index of the binding
	owner       *Binding // of an instance that is not shared: the only binding it is configured for, nil for none yet
	served      uint64   // calls other than sluice_configure
	last        tenant   // of the last of them
	uncollected bool     // it has served since the guest's housekeeping ran
	spent       int64    // fuel used since it was acquired
	idleSince   int64    // the Host's count of sweeps when it was released
}

func (in *instance) close() { in.guest.close() }

// prepare makes the instance ready to serve t through b: configured, and without data that t must not see.
// fresh: without data of any call. On an error the instance must be discarded.
func (in *instance) prepare(ctx context.Context, b *Binding, t tenant, fresh bool) error {
	isolation := in.plugin.pool.isolation
	kept := in.served == 0 || !fresh && isolation.allows(in.last, t)
	if kept && (isolation == Shared || in.owner == nil || in.owner == b) {
		return in.configure(ctx, b)
	}
	return in.reset(ctx, b)
}

// configure passes a binding's settings to the instance, once. The first instance that is configured for a binding and not
// shared saves an image, to which every instance of the plugin can be restored.
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

// reset returns the instance to where it had only been configured for b: by the binding's image, or with a new guest.
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

// revive is reset after a failed call, by the binding's image only. It is false where there is none: then the instance
// must be discarded.
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

// serve makes one call on an instance that is ready, and commits its output. An error that is not a *CallError is the
// call's own result. The caller releases the instance, or discards it after a *CallError.
func (in *instance) serve(inv *invocation, t tenant) (failed *CallError, result error) {
	defer in.call.end()
	in.served++
	in.last, in.uncollected = t, true
	if err := in.run(inv); err != nil {
		return err, nil
	}
	err := in.call.commit()
	if e, ok := err.(*CallError); ok {
		return in.addNames(e), nil
	}
	return nil, err
}

// forms calls sluice_forms, whose result is no status.
func (in *instance) forms(b *Binding) (abi.Forms, *CallError) {
	defer in.call.end()
	forms, err := in.execute(&invocation{export: exportForms, binding: b})
	if err == nil && forms < 0 {
		err = in.addNames(&CallError{Kind: KindProtocol, Reason: fmt.Sprintf("returned %d, not a valid set of forms", forms)})
	}
	return abi.Forms(forms), err
}

// run makes one call, which fails if its status is not 0. Nothing of it is committed.
func (in *instance) run(inv *invocation) *CallError {
	status, err := in.execute(inv)
	if err == nil && status != 0 {
		err = in.statusError(status)
	}
	return err
}

// execute makes one call and returns its result. Nothing of it is committed.
func (in *instance) execute(inv *invocation) (int32, *CallError) {
	c := &in.call
	c.begin(inv)
	p := in.plugin
	result, used, err := in.guest.run(in, p.host.options.Fuel.budget(inv.export, c.inputSize()))
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
	c.logOutput(c.err != nil || err != nil || result != 0 && inv.export != exportForms)
	switch {
	case c.err != nil:
		// The first error explains whatever came after it: it has taken away the guest's fuel.
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
		e.Words = c.lastWords()
		return 0, p.logStack(in.addNames(e))
	}
	return result, nil
}

// statusError returns the failure of a call that has returned a status other than 0.
func (in *instance) statusError(status int32) *CallError {
	c, e := &in.call, &CallError{Kind: KindStatus, Reason: fmt.Sprintf("status %d", status)}
	// A plugin gives up when the host rejects something. Only the host knows why.
	if refused := c.refusedRequest(); refused != nil {
		e.Kind, e.Reason = KindProtocol, e.Reason+": "+refused.Error()
	}
	if e.Words = c.lastWords(); e.Words == "" && e.Kind == KindStatus {
		e.Reason += ", and the plugin logged no error that says why"
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

// collect runs the guest's housekeeping. On an error the instance must be discarded.
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

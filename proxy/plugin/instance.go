package plugin

import "fmt"

// instance is one running copy of a plugin, with the call that it is in. It belongs to its pool while it is idle, and to
// one call at a time otherwise.
type instance struct {
	plugin *Plugin
	guest  runner
	call   call
	args   args

	configured []bool // by the index of the binding
	served     uint64 // calls other than sluice_configure
	last       tenant // whom the last of them was for
	untidy     bool   // it has served since the guest's housekeeping ran
	idleSince  int64  // the Host's count of sweeps when it was given back
}

func (in *instance) close() { in.guest.close() }

// configure gives the instance a binding's settings, once.
func (in *instance) configure(b *Binding) *CallError {
	if int(b.index) < len(in.configured) && in.configured[b.index] {
		return nil
	}
	err := in.run(invocation{export: exportConfigure, binding: b, first: b.settings})
	complaint := in.call.complaint
	in.call.end()
	if err == nil {
		for int(b.index) >= len(in.configured) {
			in.configured = append(in.configured, false)
		}
		in.configured[b.index] = true
		return nil
	}
	if err.Kind == KindStatus && len(complaint) > 0 {
		// The operator who wrote the settings reads this, and the plugin has said what is wrong with them.
		err.Reason += fmt.Sprintf(": %q", complaint)
	}
	return err
}

// serve makes one call and commits what it said. An error that is not a *CallError is the call's own result: the
// instance has done what it should. The caller gives the instance back, or discards it after a *CallError.
func (in *instance) serve(inv invocation, t tenant) (failed *CallError, result error) {
	if err := in.configure(inv.binding); err != nil {
		return err, nil
	}
	defer in.call.end()
	in.served++
	in.last, in.untidy = t, true
	if err := in.run(inv); err != nil {
		return err, nil
	}
	err := in.call.commit()
	if e, ok := err.(*CallError); ok {
		return in.name(e), nil
	}
	return nil, err
}

// run makes one call, to the point where it has returned and nothing of it is committed.
func (in *instance) run(inv invocation) *CallError {
	c := &in.call
	c.begin(inv)
	p := in.plugin
	status, used, err := in.guest.run(in, p.host.options.Fuel.budget(inv.export, c.inputSize()))
	p.calls.Add(1)
	p.fuel.Add(used)
	if inv.attempt != nil {
		inv.attempt.Fuel += used
	}
	c.phase = 0
	switch {
	case c.err != nil:
		// The first thing that went wrong explains whatever came after it.
		return in.name(c.err)
	case err != nil:
		return in.name(failure(inv.export.String(), err))
	case status != 0:
		return in.name(&CallError{Kind: KindStatus, Reason: fmt.Sprintf("status %d", status)})
	}
	return nil
}

// name completes an error with whose it is.
func (in *instance) name(e *CallError) *CallError {
	e.Plugin = in.plugin.name
	if b := in.call.binding; b != nil {
		e.Binding, e.Call = b.name, in.call.export.String()
	}
	return e
}

// collect runs the guest's housekeeping. On an error the instance must be discarded.
func (in *instance) collect() error {
	in.untidy = false
	in.call.err, in.call.running = nil, -1
	err := in.guest.collect(in.plugin.host.options.Fuel.Call)
	if in.call.err != nil {
		return in.call.err
	}
	return err
}

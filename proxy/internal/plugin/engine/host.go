package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// HostFunc is a function of the host that guests import. The stack begins with the parameters, one per cell, and the
// function overwrites them with its results. It is valid during the call only. The function runs on the goroutine of
// the call and owns the instance while it runs, but must not call or close it. A panic ends the call with a HostPanic.
//
// The engine charges nothing for the call itself: a HostFunc charges for its work with [Instance.Charge]. If that has
// used up the budget, the call ends when the HostFunc returns.
type HostFunc func(i *Instance, stack []uint64)

// Import is one function of a host module.
type Import struct {
	Name            string
	Params, Results []ValueType
	Func            HostFunc
}

// Provide adds a host module: functions that guests may import under its name. It must be called before the first
// [Engine.Compile], because modules are checked against these functions when they are compiled.
func (e *Engine) Provide(module string, imports []Import) error {
	return e.provide(hostModule{name: module, imports: imports})
}

// ProvideMissing lets guests load even if they import functions that a host module lacks. missing returns the function
// that is called instead. Like Provide, it must be called before the first Compile.
func (e *Engine) ProvideMissing(module string, missing func(name string) HostFunc) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.missing[module] = missing
}

// modulesFor returns the host modules for a guest, extended by substitutes for the missing functions that it imports.
func (e *Engine) modulesFor(missing []missingImport) []hostModule {
	if len(missing) == 0 {
		return e.modules
	}
	modules := slices.Clone(e.modules)
	for i := range modules {
		m := &modules[i]
		m.imports = slices.Clone(m.imports)
		for _, im := range missing {
			if im.module == m.name {
				m.imports = append(m.imports, Import{im.name, im.signature.Params, im.signature.Results, e.missing[m.name](im.name)})
			}
		}
	}
	return modules
}

func (e *Engine) provide(m hostModule) error {
	module, imports := m.name, m.imports
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.closed:
		return errClosed
	case e.compiled:
		return fmt.Errorf("engine: provide module %q: guests have already been compiled", module)
	case module == "":
		return errors.New("engine: provide: a module needs a name")
	case e.provided[module] != nil:
		return fmt.Errorf("engine: module %q is already provided", module)
	}
	functions := make(map[string]Signature, len(imports))
	for _, im := range imports {
		if _, ok := functions[im.Name]; ok || im.Name == "" || im.Func == nil {
			return fmt.Errorf("engine: provide module %q: function %q is named twice, or lacks a name or a body", module, im.Name)
		}
		s := Signature{Params: im.Params, Results: im.Results}
		if !s.callable() {
			return fmt.Errorf("engine: provide module %q: function %q is %v, which guests cannot call", module, im.Name, s)
		}
		functions[im.Name] = s
	}
	e.provided[module] = functions
	m.imports = slices.Clone(imports)
	e.modules = append(e.modules, m)
	return nil
}

// hostModule is a module of host functions, which is added to every runtime.
type hostModule struct {
	name     string
	imports  []Import
	standard bool // WASI or env; its functions have no effect outside of the instance but output, which is recorded there
}

// addTo adds the module's functions to r.
func (m hostModule) addTo(ctx context.Context, r wazero.Runtime) error {
	b := r.NewHostModuleBuilder(m.name)
	for _, im := range m.imports {
		b.NewFunctionBuilder().
			WithGoModuleFunction(hostFunction(im.Func, !m.standard), apiTypes(im.Params), apiTypes(im.Results)).
			Export(im.Name)
	}
	_, err := b.Instantiate(ctx)
	return err
}

// hostFunction adapts fn to wazero. effects says that what fn does may be seen outside of the instance.
//
// It ends the call if fn's charges have used up the budget. The guest's own checks are at loop heads and function
// entries only, so straight-line code could otherwise make thousands of expensive host calls before it reaches one.
func hostFunction(fn HostFunc, effects bool) api.GoModuleFunction {
	return api.GoModuleFunc(func(ctx context.Context, guest api.Module, stack []uint64) {
		i, ok := ctx.(*instanceContext)
		if !ok {
			i = ctx.Value(instanceKey{}).(*instanceContext)
			i.instance.adopt(guest)
		}
		if effects {
			i.instance.hadEffect = true
		}
		fn(i.instance, stack)
		if i.instance.meter.overdrawn {
			panic(endFuel)
		}
	})
}

// instanceContext is the context of all calls of one instance. From it, a host function gets the calling instance
// without an allocation or a look-up. It is never cancelled, because fuel bounds guests.
//
// A start function is called by wazero with a context derived from it.
type instanceContext struct {
	context.Context
	instance *Instance
}

type instanceKey struct{}

// Value returns the context itself for an instanceKey.
func (c *instanceContext) Value(key any) any {
	if _, ok := key.(instanceKey); ok {
		return c
	}
	return nil
}

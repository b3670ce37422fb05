package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// HostFunc is a function of the host that guests import. The parameters lie on the stack from its start, and results
// replace them there, each in a cell of its own; the stack is valid during the call only. It runs on the goroutine of the
// call, owns the instance while it runs and must not call or close it. A panic in it ends the call with a HostPanic.
//
// The engine charges nothing for the call itself: a HostFunc charges for its work with [Instance.Charge]. If that has used
// up the budget, the call ends when the HostFunc returns.
type HostFunc func(i *Instance, stack []uint64)

// Import is one function that a module of the host provides.
type Import struct {
	Name            string
	Params, Results []ValueType
	Func            HostFunc
}

// Provide makes a module of functions that guests may import. It must happen before the first [Engine.Compile], because
// a compiled module was checked against the functions of its time.
func (e *Engine) Provide(module string, imports []Import) error {
	return e.provide(hostModule{name: module, imports: imports})
}

// ProvideMissing has guests load although they import functions that a module of Provide lacks: missing returns what is called in
// place of the function. It is called as Provide is.
func (e *Engine) ProvideMissing(module string, missing func(name string) HostFunc) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.missing[module] = missing
}

// modulesFor returns the modules of the host for a guest that imports functions which they lack.
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
		return fmt.Errorf("engine: provide module %q: guests have been compiled already", module)
	case module == "":
		return errors.New("engine: provide: a module needs a name")
	case e.provided[module] != nil:
		return fmt.Errorf("engine: module %q is provided already", module)
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

// hostModule is a module of functions that every runtime gets.
type hostModule struct {
	name     string
	imports  []Import
	standard bool // WASI, or what else compilers expect of any host
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
// It ends the call if fn's charges have used up the budget. The guest's own checks are at loop heads and function entries
// only, so straight-line code could otherwise make thousands of expensive host calls before it reaches one.
func hostFunction(fn HostFunc, effects bool) api.GoModuleFunction {
	return api.GoModuleFunc(func(ctx context.Context, guest api.Module, stack []uint64) {
		i, ok := ctx.(*instanceContext)
		if !ok {
			i = ctx.Value(instanceKey{}).(*instanceContext)
			i.instance.adopt(guest)
		}
		if effects {
			i.instance.spoke = true
		}
		fn(i.instance, stack)
		if i.instance.meter.overdrawn {
			panic(endFuel)
		}
	})
}

// instanceContext is the context of all calls of one instance: it tells a host function its caller without
// an allocation or a look-up. It is never cancelled, since guests stop by fuel.
//
// The start function of a module, which runs before there is an instance to call, has a context derived from it.
type instanceContext struct {
	context.Context
	instance *Instance
}

type instanceKey struct{}

// Value finds the context itself.
func (c *instanceContext) Value(key any) any {
	if _, ok := key.(instanceKey); ok {
		return c
	}
	return nil
}

// Package guest contains what plugins of all kinds share: the registry of plugins, the input buffer, and the conversion
// of an error to the status of a call. The packages provider, router and filter implement Guest.
//
// Nothing here is safe for concurrent use. A module has one guest and one input buffer, and handles one call at a time.
// In a native build, package native creates the guests and serialises their calls.
package guest

import (
	"slices"
	"strings"

	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/internal/host"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// The statuses of a call.
const (
	OK     = 0
	Failed = 1 // the plugin failed, the binding was not configured, or the plugin does not implement the call
)

// Guest is one instance of a plugin: a Provider, a Router or a Filter.
type Guest interface {
	Configure(binding int32, settings []byte) int32
}

// Provider is an instance of a provider plugin. Its methods are the module's exports, but receive the input itself
// instead of its length.
type Provider interface {
	Guest
	Forms(binding int32) int32
	SummaryParts(binding int32) int32
	Request(binding int32, summary []byte) int32
	Response(binding, status int32, body []byte) int32
	Event(binding int32, kind abi.EventKind, name, data []byte) int32
	End(binding int32) int32
	List(binding int32, cursor []byte) int32
	Models(binding, status int32, body []byte) int32
}

// Router is an instance of a router plugin.
type Router interface {
	Guest
	Reads(binding int32) int32
	Choose(binding int32, input []byte) int32
}

// Filter is an instance of a filter plugin.
type Filter interface {
	Guest
	FilterParts(binding int32) int32
	FilterRequest(binding int32, input []byte) int32
	FilterText(binding int32, what abi.What, choice int32, flags abi.TextFlags, held int32, text []byte) int32
}

// registry contains the plugins of a program: either one without a name, or several with different names.
type registry []entry

type entry struct {
	name     string // empty if it is the only plugin
	newGuest func() Guest
}

var plugins registry

// Register adds a plugin to the program; newGuest creates an instance of it. name is empty for a program's only plugin.
// Register panics if the name is taken, or if one of several plugins has no name.
func Register(name string, newGuest func() Guest) { plugins.add(name, newGuest) }

// New creates an instance of the plugin with this name, or returns nil if there is none. A plugin registered without a
// name matches every name.
func New(name string) Guest { return plugins.make(name) }

func (r *registry) add(name string, newGuest func() Guest) {
	for _, e := range *r {
		switch {
		case e.name == "" || name == "":
			panic("sdk: this program has several plugins: register each with RegisterAs")
		case e.name == name:
			panic("sdk: two plugins are registered as " + name)
		}
	}
	*r = append(*r, entry{name, newGuest})
}

func (r registry) make(name string) Guest {
	for _, e := range r {
		if e.name == name || len(r) == 1 {
			return e.newGuest()
		}
	}
	return nil
}

// describe lists the registered plugins, for an error about a missing one.
func (r registry) describe() string {
	if len(r) == 0 {
		return "no plugin is registered: call provider.Register or router.Register in func init; a plugin's main is not run"
	}
	return "the module contains " + r.names()
}

func (r registry) names() string {
	names := make([]string, len(r))
	for i, e := range r {
		names[i] = e.name
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// pluginKind returns the kinds that a guest implements, PluginUnknown if g is nil.
func pluginKind(g Guest) abi.PluginKind {
	kind := abi.PluginUnknown
	if _, ok := g.(Provider); ok {
		kind |= abi.PluginProvider
	}
	if _, ok := g.(Router); ok {
		kind |= abi.PluginRouter
	}
	if _, ok := g.(Filter); ok {
		kind |= abi.PluginFilter
	}
	return kind
}

// FinishCall reports the error that ended a call, if any, and returns the status of the call. In a call that reads a
// response, invalid JSON counts as the provider's failure.
func FinishCall(err error, readsResponse bool) int32 {
	if err == nil {
		return OK
	}
	return reportError(err, readsResponse)
}

// FinishConfigure is FinishCall for sluice_configure: the host takes the reason of a failure from the log, because the
// import fail describes the failure of a request.
func FinishConfigure(err error) int32 {
	if err == nil {
		return OK
	}
	message := err.Error()
	if f, ok := err.(*sdk.Failure); ok && f.Param != "" {
		message = f.Param + ": " + message
	}
	host.Log(abi.LogError, host.Bytes(message))
	return Failed
}

// reportError is separate from FinishCall so that FinishCall can be inlined.
func reportError(err error, readsResponse bool) int32 {
	switch e := err.(type) {
	case *sdk.Failure:
		retry := e.RetryAfter
		if retry <= 0 {
			retry = abi.RetryAfterUnknown
		}
		host.Fail(e.Kind, host.Bytes(e.Code), host.Bytes(e.Param), host.Bytes(e.Message), retry)
		return OK
	case *json.Error:
		if readsResponse {
			host.Fail(abi.FailBadAnswer, nil, nil, host.Bytes("The provider's response is not valid JSON."), abi.RetryAfterUnknown)
			return OK
		}
	}
	host.Log(abi.LogError, host.Bytes(err.Error()))
	return Failed
}

// Fetch appends a value to a store and returns that part of the store; ok is false if the host has no such value. read
// copies as much of the value as fits into dst and returns its full size. If the value does not fit, the store is
// replaced by a larger one; slices of the old one stay valid.
func Fetch(store *[]byte, read func(dst []byte) int32) (p []byte, ok bool) {
	for {
		n := int(read(Unused(*store)))
		if n < 0 {
			return nil, false
		}
		if p, ok := Keep(store, n); ok {
			return p, true
		}
	}
}

// Unused returns the part of a store between its length and its capacity.
func Unused(store []byte) []byte { return store[len(store):cap(store)] }

// Keep extends a store by the n bytes that were copied into its unused part, and returns them. If they did not fit, it
// replaces the store by a larger one and returns false: the caller must copy them again.
func Keep(store *[]byte, n int) (p []byte, ok bool) {
	used := len(*store)
	if used+n > cap(*store) {
		*store = make([]byte, 0, max(n, 2*cap(*store), 512))
		return nil, false
	}
	*store = (*store)[:used+n]
	return (*store)[used : used+n : used+n], true
}

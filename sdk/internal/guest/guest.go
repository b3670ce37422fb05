// Package guest is what the modules of all plugins share: the input buffer, the settings of bindings, and how an error
// becomes a status.
//
// In a module it holds one guest and one buffer, and is called with one thing at a time. In a native build it makes
// guests for whoever runs plugins natively; there the caller sees to it that only one of them runs at a time.
package guest

import (
	"slices"
	"strings"
	"unsafe"

	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/internal/host"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// The statuses of a call.
const (
	OK     = 0
	Failed = 1 // the plugin's own failure, or a binding or an ability that it does not have
)

// Guest is one instance of a plugin. It is a Provider or a Router.
type Guest interface {
	Configure(binding int32, settings []byte) int32
}

// Provider is an instance of a provider plugin. Its methods are the exports, with the input in place of its length.
type Provider interface {
	Guest
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
	Choose(binding int32, input []byte) int32
}

// registry is the plugins of a program: one, or several that have names.
type registry []entry

type entry struct {
	name     string // "" is a program's only plugin
	newGuest func() Guest
}

var plugins registry

// Register says how instances of a plugin are made. A program is one plugin, or each has another name.
func Register(name string, newGuest func() Guest) { plugins.add(name, newGuest) }

// New makes an instance of the plugin of that name, nil if there is none. A program's only plugin has every name.
func New(name string) Guest { return plugins.make(name) }

func (r *registry) add(name string, newGuest func() Guest) {
	for _, e := range *r {
		switch {
		case e.name == "" || name == "":
			panic("sdk: two plugins are registered in one program, and not both by RegisterAs")
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

// names says in words which plugins there are.
func (r registry) names() string {
	names := make([]string, len(r))
	for i, e := range r {
		names[i] = e.name
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// kindOf is what a guest can do, nothing if it is nil.
func kindOf(g Guest) abi.PluginKind {
	kind := abi.PluginUnknown
	if _, ok := g.(Provider); ok {
		kind |= abi.PluginProvider
	}
	if _, ok := g.(Router); ok {
		kind |= abi.PluginRouter
	}
	return kind
}

// Bytes lends the bytes of a string to a call of the host, which does not change them.
func Bytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// Settle makes the status of a call that ended with err. In an answer a broken document is the provider's failure.
func Settle(err error, answer bool) int32 {
	if err == nil {
		return OK
	}
	return settle(err, answer)
}

// settle is apart from Settle so that this is inlined.
func settle(err error, answer bool) int32 {
	switch e := err.(type) {
	case *sdk.Failure:
		retry := e.RetryAfter
		if retry <= 0 {
			retry = abi.RetryAfterUnknown
		}
		host.Fail(e.Kind, Bytes(e.Code), Bytes(e.Param), Bytes(e.Message), retry)
		return OK
	case *json.Error:
		if answer {
			host.Fail(abi.FailBadAnswer, nil, nil, Bytes("The provider's answer is not valid JSON."), abi.RetryAfterUnknown)
			return OK
		}
	}
	host.Log(abi.LogError, Bytes(err.Error()))
	return Failed
}

// Fetch reads what get gives into the free part of a store and returns it; ok is false where get answers that there is
// nothing. The store grows where it must; what was fetched before stays where it is.
func Fetch(store *[]byte, get func(dst []byte) int32) (p []byte, ok bool) {
	for {
		n := int(get(Free(*store)))
		if n < 0 {
			return nil, false
		}
		if p, ok := Take(store, n); ok {
			return p, true
		}
	}
}

// Free is the free part of a store.
func Free(store []byte) []byte { return store[len(store):cap(store)] }

// Take returns the n bytes that were read into the free part of a store. Where they did not fit it grows, and they are
// to be read again.
func Take(store *[]byte, n int) (p []byte, ok bool) {
	used := len(*store)
	if used+n > cap(*store) {
		*store = make([]byte, 0, max(n, 2*cap(*store), 512))
		return nil, false
	}
	*store = (*store)[:used+n]
	return (*store)[used : used+n : used+n], true
}

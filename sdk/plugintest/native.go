package plugintest

import (
	"sync"

	"github.com/sluice-gateway/sluice/proxy/plugin"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/internal/guest"
	"github.com/sluice-gateway/sluice/sdk/internal/host"
)

// running is held while a native guest runs: the SDK has one host a process.
var running sync.Mutex

// native is an instance of a plugin that this program has registered.
type native struct {
	host     abi.Host
	guest    guest.Guest
	provider guest.Provider // nil for a router
	router   guest.Router   // nil for a provider
}

var _ plugin.Guest = (*native)(nil)

// newNative makes an instance; nil if this program has registered no such plugin.
func newNative(name string, h abi.Host) *native {
	g := guest.New(name)
	if g == nil {
		return nil
	}
	n := &native{host: h, guest: g}
	n.provider, _ = g.(guest.Provider)
	n.router, _ = g.(guest.Router)
	return n
}

// enter gives the SDK this instance's host for one call.
func (n *native) enter() (leave func()) {
	running.Lock()
	host.Use(n.host)
	return func() {
		host.Use(nil)
		running.Unlock()
	}
}

// Has says that a native plugin has the exports that its module has.
func (n *native) Has(export string) bool {
	switch export {
	case abi.ExportConfigure:
		return true
	case abi.ExportRequest, abi.ExportResponse, abi.ExportEvent, abi.ExportEnd, abi.ExportList, abi.ExportModels:
		return n.provider != nil
	case abi.ExportChoose:
		return n.router != nil
	}
	return false
}

func (n *native) Configure(binding int32, settings []byte) int32 {
	defer n.enter()()
	return n.guest.Configure(binding, settings)
}

func (n *native) Request(binding int32, summary []byte) int32 {
	defer n.enter()()
	return n.provider.Request(binding, summary)
}

func (n *native) Response(binding, status int32, body []byte) int32 {
	defer n.enter()()
	return n.provider.Response(binding, status, body)
}

func (n *native) Event(binding int32, kind abi.EventKind, name, data []byte) int32 {
	defer n.enter()()
	return n.provider.Event(binding, kind, name, data)
}

func (n *native) End(binding int32) int32 {
	defer n.enter()()
	return n.provider.End(binding)
}

func (n *native) List(binding int32, cursor []byte) int32 {
	defer n.enter()()
	return n.provider.List(binding, cursor)
}

func (n *native) Models(binding, status int32, body []byte) int32 {
	defer n.enter()()
	return n.provider.Models(binding, status, body)
}

func (n *native) Choose(binding int32, input []byte) int32 {
	defer n.enter()()
	return n.router.Choose(binding, input)
}

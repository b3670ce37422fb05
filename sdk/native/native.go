// Package native runs plugins as Go code in this process instead of as WebAssembly, for unit tests and debuggers. Serve
// runs them for a host in another process, which is how `sluice plugin test` runs plugins natively.
//
// The SDK has one host per process, so the calls of all instances run one at a time. Instance is safe for concurrent
// use.
package native

import (
	"sync"

	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/internal/guest"
	"github.com/sluice-gateway/sluice/sdk/internal/host"
)

// running is held during each call, because the SDK has one host per process.
var running sync.Mutex

// Instance is an instance of a plugin that is linked into this program.
type Instance struct {
	host     abi.Host
	guest    guest.Guest
	provider guest.Provider // nil if the plugin is not a provider
	router   guest.Router   // nil if the plugin is not a router
	filter   guest.Filter   // nil if the plugin is not a filter
}

// New creates an instance of the plugin registered under this name, which calls h for its imports. It returns nil if
// there is no such plugin.
func New(name string, h abi.Host) *Instance {
	g := guest.New(name)
	if g == nil {
		return nil
	}
	n := &Instance{host: h, guest: g}
	n.provider, _ = g.(guest.Provider)
	n.router, _ = g.(guest.Router)
	n.filter, _ = g.(guest.Filter)
	return n
}

// enter makes n's host the process's host for one call.
func (n *Instance) enter() (leave func()) {
	running.Lock()
	host.Use(n.host)
	return func() {
		host.Use(nil)
		running.Unlock()
	}
}

// Has reports whether the plugin's module would have this export.
func (n *Instance) Has(export string) bool {
	switch export {
	case abi.ExportConfigure:
		return true
	case abi.ExportForms, abi.ExportSummary, abi.ExportRequest, abi.ExportResponse, abi.ExportEvent, abi.ExportEnd, abi.ExportList, abi.ExportModels:
		return n.provider != nil
	case abi.ExportReads, abi.ExportChoose:
		return n.router != nil
	case abi.ExportFilterReads, abi.ExportFilterRequest, abi.ExportFilterText:
		return n.filter != nil
	}
	return false
}

// Configure is the export sluice_configure.
func (n *Instance) Configure(binding int32, settings []byte) int32 {
	defer n.enter()()
	return n.guest.Configure(binding, settings)
}

// Forms is the export sluice_forms.
func (n *Instance) Forms(binding int32) int32 {
	defer n.enter()()
	return n.provider.Forms(binding)
}

// SummaryParts is the export provider_reads.
func (n *Instance) SummaryParts(binding int32) int32 {
	defer n.enter()()
	return n.provider.SummaryParts(binding)
}

// Request is the export provider_request.
func (n *Instance) Request(binding int32, summary []byte) int32 {
	defer n.enter()()
	return n.provider.Request(binding, summary)
}

// Response is the export provider_response.
func (n *Instance) Response(binding, status int32, body []byte) int32 {
	defer n.enter()()
	return n.provider.Response(binding, status, body)
}

// Event is the export provider_event.
func (n *Instance) Event(binding int32, kind abi.EventKind, name, data []byte) int32 {
	defer n.enter()()
	return n.provider.Event(binding, kind, name, data)
}

// End is the export provider_end.
func (n *Instance) End(binding int32) int32 {
	defer n.enter()()
	return n.provider.End(binding)
}

// List is the export provider_list.
func (n *Instance) List(binding int32, cursor []byte) int32 {
	defer n.enter()()
	return n.provider.List(binding, cursor)
}

// Models is the export provider_models.
func (n *Instance) Models(binding, status int32, body []byte) int32 {
	defer n.enter()()
	return n.provider.Models(binding, status, body)
}

// Reads is the export router_reads.
func (n *Instance) Reads(binding int32) int32 {
	defer n.enter()()
	return n.router.Reads(binding)
}

// Choose is the export router_choose.
func (n *Instance) Choose(binding int32, input []byte) int32 {
	defer n.enter()()
	return n.router.Choose(binding, input)
}

// FilterParts is the export filter_reads.
func (n *Instance) FilterParts(binding int32) int32 {
	defer n.enter()()
	return n.filter.FilterParts(binding)
}

// FilterRequest is the export filter_request.
func (n *Instance) FilterRequest(binding int32, input []byte) int32 {
	defer n.enter()()
	return n.filter.FilterRequest(binding, input)
}

// FilterText is the export filter_text.
func (n *Instance) FilterText(binding int32, what abi.What, choice int32, flags abi.TextFlags, held int32, text []byte) int32 {
	defer n.enter()()
	return n.filter.FilterText(binding, what, choice, flags, held, text)
}

package provider

import (
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/internal/guest"
)

// self returns the module's provider, or one without bindings if the host selected another kind of plugin.
func self() *instance {
	if i, ok := guest.Self().(*instance); ok {
		return i
	}
	return &none
}

var none instance

//go:wasmexport sluice_forms
func exportForms(binding int32) int32 { return self().Forms(binding) }

//go:wasmexport provider_reads
func exportReads(binding int32) int32 { return self().SummaryParts(binding) }

//go:wasmexport provider_request
func exportRequest(binding, length int32) int32 {
	return self().Request(binding, guest.Input(length))
}

//go:wasmexport provider_response
func exportResponse(binding, status, length int32) int32 {
	return self().Response(binding, status, guest.Input(length))
}

//go:wasmexport provider_event
func exportEvent(binding, kind, nameLength, dataLength int32) int32 {
	in := guest.Input(nameLength + dataLength)
	return self().Event(binding, abi.EventKind(kind), in[:nameLength:nameLength], in[nameLength:])
}

//go:wasmexport provider_end
func exportEnd(binding int32) int32 { return self().End(binding) }

//go:wasmexport provider_list
func exportList(binding, cursorLength int32) int32 {
	return self().List(binding, guest.Input(cursorLength))
}

//go:wasmexport provider_models
func exportModels(binding, status, length int32) int32 {
	return self().Models(binding, status, guest.Input(length))
}

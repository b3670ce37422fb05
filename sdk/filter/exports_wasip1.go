package filter

import (
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/internal/guest"
)

// self returns the module's filter, or one without bindings if the host selected another kind of plugin.
func self() *instance {
	if i, ok := guest.Self().(*instance); ok {
		return i
	}
	return &none
}

var none instance

//go:wasmexport filter_reads
func exportReads(binding int32) int32 { return self().FilterParts(binding) }

//go:wasmexport filter_request
func exportRequest(binding, length int32) int32 {
	return self().FilterRequest(binding, guest.Input(length))
}

//go:wasmexport filter_text
func exportText(binding, what, choice, flags, held, length int32) int32 {
	return self().FilterText(binding, abi.What(what), choice, abi.TextFlags(flags), held, guest.Input(length))
}

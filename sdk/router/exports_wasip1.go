package router

import "github.com/sluice-gateway/sluice/sdk/internal/guest"

//go:wasmexport router_reads
func exportReads(binding int32) int32 {
	if i, ok := guest.Self().(*instance); ok {
		return i.Reads(binding)
	}
	return -1
}

//go:wasmexport router_choose
func exportChoose(binding, length int32) int32 {
	// The host selected another kind of plugin, so there is no router to call.
	i, ok := guest.Self().(*instance)
	if !ok {
		return guest.Failed
	}
	return i.Choose(binding, guest.Input(length))
}

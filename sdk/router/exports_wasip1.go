package router

import "github.com/sluice-gateway/sluice/sdk/internal/guest"

//go:wasmexport router_choose
func exportChoose(binding, length int32) int32 {
	// The host selected a provider: there are no bindings of a router.
	i, ok := guest.Self().(*instance)
	if !ok {
		return guest.Failed
	}
	return i.Choose(binding, guest.Input(length))
}

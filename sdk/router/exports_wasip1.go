package router

import "github.com/sluice-gateway/sluice/sdk/internal/guest"

//go:wasmexport router_choose
func exportChoose(binding, length int32) int32 {
	// The host selected another kind of plugin, so there is no router to call.
	i, ok := guest.Self().(*instance)
	if !ok {
		return guest.Failed
	}
	return i.Choose(binding, guest.Input(length))
}

package router

import "github.com/sluice-gateway/sluice/sdk/internal/guest"

//go:wasmexport router_choose
func exportChoose(binding, length int32) int32 {
	return guest.Self().(*instance).Choose(binding, guest.Input(length))
}

package plugin

import "github.com/sluice-gateway/sluice/sdk/abi"

// Guest is a plugin that runs natively instead of in a Wasm instance. With it, tests run a plugin's Go code under the
// host's rules without building it for wasip1. Its methods are the guest's exports and, except Forms, SummaryParts, Reads and FilterParts, return their
// status. Byte slices belong to the host and are valid during the call only.
//
// An export for which Has is false is never called. A panic ends the call as a trap does.
type Guest interface {
	// Has reports whether the guest has an export, by its name in package abi.
	Has(export string) bool

	Configure(binding int32, settings []byte) int32
	Forms(binding int32) int32        // returns the forms
	SummaryParts(binding int32) int32 // returns the parts
	Request(binding int32, summary []byte) int32
	Response(binding, status int32, body []byte) int32
	Event(binding int32, kind abi.EventKind, name, data []byte) int32
	End(binding int32) int32
	List(binding int32, cursor []byte) int32
	Models(binding, status int32, body []byte) int32
	Reads(binding int32) int32 // returns the parts
	Choose(binding int32, input []byte) int32
	FilterParts(binding int32) int32 // returns the parts
	FilterRequest(binding int32, input []byte) int32
	FilterText(binding int32, what abi.What, choice int32, flags abi.TextFlags, held int32, text []byte) int32
}

package guest

import (
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/internal/host"
)

// self is the module's guest.
var self Guest

// Self returns the module's guest. If the host has not selected a plugin, the first call creates the only one.
func Self() Guest {
	if self == nil {
		self = New("")
	}
	return self
}

// input is the buffer for the input of a call. It is replaced only when the host requests a buffer.
var input []byte

// minInput is enough for typical events. A buffer larger than keepInput, which a large body needed, is replaced as soon
// as a smaller one suffices.
const (
	minInput  = 16 << 10
	keepInput = 1 << 20
)

//go:wasmexport sluice_abi_v1
func version() int32 { return abi.Minor }

//go:wasmexport sluice_buffer
func buffer(size int32) *byte {
	if size < 0 {
		return nil
	}
	if int(size) > len(input) || len(input) > keepInput && size <= keepInput {
		input = make([]byte, max(int(size), minInput))
	}
	return &input[0]
}

// Input returns the first bytes of the input buffer. The bytes between its length and its capacity are zero; package
// json may load them.
func Input(length int32) []byte { return input[:length] }

//go:wasmexport sluice_plugin
func choose(length int32) int32 {
	self = New(string(Input(length)))
	if self == nil {
		host.Log(abi.LogError, host.Bytes(plugins.describe()))
	}
	return int32(pluginKind(self))
}

//go:wasmexport sluice_configure
func configure(binding, length int32) int32 { return Self().Configure(binding, Input(length)) }

package guest

import (
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/internal/host"
)

// self is the module's guest.
var self Guest

// Self is the module's guest. Where the host has not chosen it, the only plugin's is made at the first call.
func Self() Guest {
	if self == nil {
		self = New("")
	}
	return self
}

// input is where the host puts what a call is about. It is replaced only when the host asks for a buffer.
var input []byte

// No ordinary event needs more than minInput bytes. What one large body needed is not kept for longer than that body:
// a buffer above keepInput is given up as soon as less will do.
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

// Input is the first bytes of the input buffer. The rest of the buffer, its capacity, holds zeros, which package json may
// load: a document is read faster where there is something behind its end.
func Input(length int32) []byte { return input[:length] }

//go:wasmexport sluice_plugin
func choose(length int32) int32 {
	self = New(string(Input(length)))
	if self == nil {
		host.Log(abi.LogError, host.Bytes("the module contains "+plugins.names()))
	}
	return int32(pluginKind(self))
}

//go:wasmexport sluice_configure
func configure(binding, length int32) int32 { return Self().Configure(binding, Input(length)) }

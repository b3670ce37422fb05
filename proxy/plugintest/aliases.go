package plugintest

import (
	"github.com/sluice-gateway/sluice/proxy/internal/chat"
	"github.com/sluice-gateway/sluice/proxy/internal/framing/eventstream"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
)

// The host's types that tests of plugins use.
type (
	Attempt        = plugin.Attempt
	Binding        = plugin.Binding
	BindingConfig  = plugin.BindingConfig
	CallError      = plugin.CallError
	Guest          = plugin.Guest
	HostOptions    = plugin.Options
	Plugin         = plugin.Plugin
	Spec           = plugin.Spec
	Summary        = plugin.Summary
	Header         = plugin.Header
	Flags          = chat.Flags
	Limits         = chat.Limits
	Machine        = chat.Machine
	MachineOptions = chat.MachineOptions
	Request        = chat.Request
	Decoder        = eventstream.Decoder
)

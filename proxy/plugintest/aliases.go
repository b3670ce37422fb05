package plugintest

import (
	"github.com/sluice-gateway/sluice/proxy/internal/openai"

	"github.com/sluice-gateway/sluice/proxy/internal/response"

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
	Flags          = openai.Flags
	Limits         = openai.Limits
	Machine        = response.Machine
	MachineOptions = response.MachineOptions
	Request        = openai.Request
	Decoder        = eventstream.Decoder
)

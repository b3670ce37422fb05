package plugintest

import (
	"github.com/sluice-gateway/sluice/proxy/internal/openai"

	"github.com/sluice-gateway/sluice/proxy/internal/response"

	"github.com/sluice-gateway/sluice/proxy/internal/framing/eventstream"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
)

// The host's types that tests of plugins use.
type (
	Attempt       = plugin.Attempt
	Binding       = plugin.Binding
	BindingConfig = plugin.BindingConfig
	CallError     = plugin.CallError
	Guest         = plugin.Guest
	HostOptions   = plugin.Options
	Plugin        = plugin.Plugin
	Spec          = plugin.Spec
	Summary       = plugin.Summary
	Header        = plugin.Header
	Flags         = openai.Flags
	Limits        = openai.Limits
	Writer        = response.Writer
	WriterOptions = response.Options
	Request       = openai.Request
	Decoder       = eventstream.Decoder
)

// NewWriter returns a writer of chat completions, for an Attempt.
func NewWriter() *Writer { return openai.NewWriter() }

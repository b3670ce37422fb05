package sdk

import (
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/internal/host"
)

// Log writes a line to the plugin's log, which is off unless the operator asks for it. Never log what a client or a
// model said.
func Log(level abi.LogLevel, message string) { host.Log(level, []byte(message)) }

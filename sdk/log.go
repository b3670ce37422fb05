package sdk

import (
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/internal/host"
)

// Log writes a line to the plugin's log, which is off unless the operator enables it. Never log text of requests or
// responses.
func Log(level abi.LogLevel, message string) { host.Log(level, []byte(message)) }

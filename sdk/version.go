package sdk

import "github.com/sluice-gateway/sluice/sdk/internal/host"

// HostMinor returns the minor version of the ABI that the gateway implements, for plugins that work around the limits
// of older gateways. The SDK's own version is abi.Minor. Gateways that implement a version before 1.4 do not load a
// plugin that calls HostMinor.
func HostMinor() int { return int(host.HostMinor()) }

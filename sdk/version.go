package sdk

import "github.com/sluice-gateway/sluice/sdk/internal/host"

// HostMinor returns the minor version of the ABI that the gateway has, for a plugin that works with older ones in another way. The
// SDK's own is abi.Minor. Gateways before 1.4 do not load a plugin that calls it.
func HostMinor() int { return int(host.HostMinor()) }

package proxy

import (
	"sync/atomic"

	"github.com/sluice-gateway/sluice/proxy/config"
)

// settings are what the configuration says of connections and requests as such. A Reload puts others in their place,
// which count from the next request on.
type settings struct{ atomic.Pointer[config.Server] }

package gemini_test

import (
	"encoding/base64"

	"github.com/sluice-gateway/sluice/proxy/internal/thinking"
)

// sealOf is a seal as clients get it.
func sealOf(s thinking.Sealed) string {
	return base64.StdEncoding.EncodeToString(sealer.Append(nil, s))
}

package gemini_test

import (
	"encoding/base64"

	"github.com/sluice-gateway/sluice/proxy/internal/thinking"
)

// sealForClient returns a seal as clients receive it.
func sealForClient(s thinking.Sealed) string {
	return base64.StdEncoding.EncodeToString(sealer.Append(nil, s))
}

package responses

import (
	"github.com/sluice-gateway/sluice/proxy/internal/thinking"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// appendEncrypted appends the inside of a reasoning item's encrypted_content: the seals of everything that the item
// does not show, and of its origin (see the package documentation).
func (it *outputItem) appendEncrypted(dst []byte, s *thinking.Sealer, format, callID []byte, shown bool) []byte {
	from := len(dst)
	seal := func(part abi.ReasoningPart, data []byte) {
		if len(dst) > from {
			dst = append(dst, sealSeparator)
		}
		dst = s.Append(dst, thinking.Sealed{Format: string(format), Part: part, CallID: string(callID), Data: data})
	}
	readable := abi.ReasoningText
	if it.summary {
		readable = abi.ReasoningSummary
	}
	switch {
	case len(it.text) == 0:
	case !shown:
		seal(readable, it.text)
	case len(it.signature) == 0 && len(it.encrypted) == 0:
		seal(readable, nil)
	}
	if len(it.signature) > 0 {
		seal(abi.ReasoningSignature, it.signature)
	}
	if len(it.encrypted) > 0 {
		part := abi.ReasoningEncrypted
		if it.ofCall {
			part = abi.ReasoningToolEncrypted
		}
		seal(part, it.encrypted)
	}
	return dst
}

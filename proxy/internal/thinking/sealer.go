package thinking

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"hash"
	"sync"

	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Sealed is a piece of reasoning that only its provider understands. A client receives and returns it as a token, in
// the single opaque string that its API has: signature in Messages, encrypted_content in Responses.
type Sealed struct {
	Format string            // the format of the provider's reasoning (response.Head.ReasoningFormat); "" if unknown
	Part   abi.ReasoningPart // the kind of Data
	CallID string            // ID of the tool call that Data belongs to, for abi.ReasoningToolEncrypted
	Data   []byte            // the contents of a JSON string, as the provider sent it; empty if only the origin is known
}

// Sealer turns pieces of reasoning into tokens and back. A token is authenticated but not encrypted, because its
// content is already opaque to everyone except its provider. The MAC keeps clients, and providers whose output is
// passed on, from forging the origin. Gateways that share a key can read each other's tokens.
//
// A Sealer is safe for concurrent use.
type Sealer struct {
	macs sync.Pool // of *mac
}

// mac computes the MAC of tokens.
type mac struct {
	hash.Hash
	sum     [sha256.Size]byte
	payload []byte // scratch
}

// sealPrefix starts every token. Signatures of providers cannot start with it: they are base64, which has no dot.
var sealPrefix = []byte("sluice.seal.1.")

// macSize is the length in bytes of a token's MAC, a truncated HMAC-SHA256.
const macSize = 16

// sealEncoding is strict, so that each value has exactly one valid token.
var sealEncoding = base64.RawURLEncoding.Strict()

// NewSealer returns a sealer with a key of 32 bytes. If key is nil, a random one is used, and no other sealer can open
// its tokens.
func NewSealer(key []byte) *Sealer {
	key = bytes.Clone(key)
	if key == nil {
		key = make([]byte, sha256.Size)
		rand.Read(key) // never fails
	}
	s := new(Sealer)
	s.macs.New = func() any { return &mac{Hash: hmac.New(sha256.New, key)} }
	return s
}

// IsSealed reports whether a string is a token, valid or not, of any key. If so, no provider has written it.
func IsSealed(token []byte) bool { return bytes.HasPrefix(token, sealPrefix) }

// Append appends the token for v. It consists of printable ASCII that needs no escaping in JSON.
func (s *Sealer) Append(dst []byte, v Sealed) []byte {
	m := s.macs.Get().(*mac)
	defer s.release(m)
	p := append(m.payload[:0], make([]byte, macSize)...)
	p = append(p, byte(v.Part))
	p = append(binary.AppendUvarint(p, uint64(len(v.Format))), v.Format...)
	p = append(binary.AppendUvarint(p, uint64(len(v.CallID))), v.CallID...)
	p = append(p, v.Data...)
	copy(p, m.compute(p[macSize:]))
	m.payload = p
	return sealEncoding.AppendEncode(append(dst, sealPrefix...), p)
}

// Open returns the content of a token. It reports false if the token is damaged or sealed with another key.
func (s *Sealer) Open(token []byte) (Sealed, bool) {
	encoded, ok := bytes.CutPrefix(token, sealPrefix)
	if !ok || bytes.ContainsAny(encoded, "\r\n") { // the decoder would ignore these
		return Sealed{}, false
	}
	p, err := sealEncoding.AppendDecode(nil, encoded)
	if err != nil || len(p) < macSize+1 {
		return Sealed{}, false
	}
	m := s.macs.Get().(*mac)
	defer s.release(m)
	sum, p := p[:macSize], p[macSize:]
	if subtle.ConstantTimeCompare(sum, m.compute(p)) != 1 {
		return Sealed{}, false
	}
	v := Sealed{Part: abi.ReasoningPart(p[0])}
	var okFormat, okID bool
	v.Format, p, okFormat = cutString(p[1:])
	v.CallID, v.Data, okID = cutString(p)
	return v, okFormat && okID && v.Part < abi.ReasoningParts
}

// cutString reads a length-prefixed string from the start of p.
func cutString(p []byte) (s string, rest []byte, ok bool) {
	n, size := binary.Uvarint(p)
	if size <= 0 || n > uint64(len(p)-size) {
		return "", nil, false
	}
	p = p[size:]
	return string(p[:n]), p[n:], true
}

// compute returns the MAC of a payload. It is valid until the next call.
func (m *mac) compute(payload []byte) []byte {
	m.Reset()
	m.Write(sealPrefix)
	m.Write(payload)
	return m.Sum(m.sum[:0])[:macSize]
}

// release returns a mac to the pool.
func (s *Sealer) release(m *mac) {
	const keep = 64 << 10
	if cap(m.payload) > keep {
		m.payload = nil
	}
	s.macs.Put(m)
}

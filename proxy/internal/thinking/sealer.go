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

// Sealed is a piece of reasoning that one provider understands, on its way through a client whose API has but one opaque
// string for it: signature in Messages, encrypted_content in Responses.
type Sealed struct {
	Format string            // the format of the provider's reasoning (response.Head.ReasoningFormat); "" if unknown
	Part   abi.ReasoningPart // what Data is
	CallID string            // of the tool call that Data belongs to, for abi.ReasoningToolEncrypted
	Data   []byte            // the inside of a JSON string, as the provider gave it; empty: only the origin is known
}

// Sealer turns pieces of reasoning into tokens and back. A token is authenticated, not encrypted: the reasoning in it is
// opaque to everyone but its provider, and what the MAC prevents is that a client, or a provider whose output is passed on,
// forges the origin. Gateways that share a key read each other's tokens.
//
// A Sealer is safe for concurrent use.
type Sealer struct {
	macs sync.Pool // of *mac
}

type mac struct {
	hash.Hash
	sum     [sha256.Size]byte
	payload []byte // scratch
}

// sealMark begins a token. No provider's signature does: those are base64, which has no dot.
var sealMark = []byte("sluice.seal.1.")

// macSize is the length of a token's MAC, an HMAC-SHA256 that is cut off.
const macSize = 16

// sealEncoding refuses what it would not write itself, so that no two tokens say the same.
var sealEncoding = base64.RawURLEncoding.Strict()

// NewSealer returns a sealer with a key of 32 bytes. Without one (nil) its key is random, and its tokens are of no use to
// any other sealer.
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

// IsSealed reports whether a string has the form of a token, of whatever key, valid or not: no provider has written it.
func IsSealed(token []byte) bool { return bytes.HasPrefix(token, sealMark) }

// Append appends a token: printable ASCII that no JSON string has to escape.
func (s *Sealer) Append(dst []byte, v Sealed) []byte {
	m := s.macs.Get().(*mac)
	defer s.release(m)
	p := append(m.payload[:0], make([]byte, macSize)...)
	p = append(p, byte(v.Part))
	p = append(binary.AppendUvarint(p, uint64(len(v.Format))), v.Format...)
	p = append(binary.AppendUvarint(p, uint64(len(v.CallID))), v.CallID...)
	p = append(p, v.Data...)
	copy(p, m.of(p[macSize:]))
	m.payload = p
	return sealEncoding.AppendEncode(append(dst, sealMark...), p)
}

// Open returns what is in a token. It is false where the token is damaged or of another key.
func (s *Sealer) Open(token []byte) (Sealed, bool) {
	encoded, ok := bytes.CutPrefix(token, sealMark)
	if !ok || bytes.ContainsAny(encoded, "\r\n") { // the decoder would skip these
		return Sealed{}, false
	}
	p, err := sealEncoding.AppendDecode(nil, encoded)
	if err != nil || len(p) < macSize+1 {
		return Sealed{}, false
	}
	m := s.macs.Get().(*mac)
	defer s.release(m)
	sum, p := p[:macSize], p[macSize:]
	if subtle.ConstantTimeCompare(sum, m.of(p)) != 1 {
		return Sealed{}, false
	}
	v := Sealed{Part: abi.ReasoningPart(p[0])}
	var okFormat, okID bool
	v.Format, p, okFormat = cutString(p[1:])
	v.CallID, v.Data, okID = cutString(p)
	return v, okFormat && okID && v.Part < abi.ReasoningParts
}

// cutString reads a string and its length from the beginning of p.
func cutString(p []byte) (s string, rest []byte, ok bool) {
	n, size := binary.Uvarint(p)
	if size <= 0 || n > uint64(len(p)-size) {
		return "", nil, false
	}
	p = p[size:]
	return string(p[:n]), p[n:], true
}

// of returns the MAC of a payload. It is valid until the next call.
func (m *mac) of(payload []byte) []byte {
	m.Reset()
	m.Write(sealMark)
	m.Write(payload)
	return m.Sum(m.sum[:0])[:macSize]
}

// release keeps a mac for the next token.
func (s *Sealer) release(m *mac) {
	const keep = 64 << 10
	if cap(m.payload) > keep {
		m.payload = nil
	}
	s.macs.Put(m)
}

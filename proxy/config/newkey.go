package config

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
)

// keyBytes is the length of the random part of a new client key: 256 bits.
const keyBytes = 32

// NewKey generates a client key and its digest for [[keys]].
func NewKey() (key, digest string) {
	var b [keyBytes]byte
	// rand.Read never returns an error; it ends the process if the system has no randomness.
	_, _ = rand.Read(b[:])
	key = "sk-sluice-" + base64.RawURLEncoding.EncodeToString(b[:])
	sum := sha256.Sum256([]byte(key))
	return key, "sha256:" + hex.EncodeToString(sum[:])
}

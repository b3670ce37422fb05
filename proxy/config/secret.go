package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
)

// redacted is how a Secret is printed.
const redacted = "[redacted]"

// Secret is a credential. Every verb and encoder prints it as "[redacted]", or as nothing if it is empty. Reveal
// returns its value.
type Secret string

// Reveal returns the credential itself.
func (s Secret) Reveal() string { return string(s) }

// String returns "[redacted]", or "" for an empty Secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return redacted
}

// Format is needed besides String because fmt prints the value itself for verbs that do not apply to strings.
func (s Secret) Format(f fmt.State, verb rune) {
	if verb == 'q' || verb == 'v' && f.Flag('#') {
		fmt.Fprintf(f, "%q", s.String())
		return
	}
	_, _ = io.WriteString(f, s.String())
}

// MarshalText is used by encoding/json and other encoders.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue is used by log/slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// Format is needed because fmt, for verbs that do not apply to pointers, prints the pointed-to struct and ignores the
// methods of its fields.
func (a AWS) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "{%s %s %s %s %s %s}", a.Region, a.Service, a.Profile, a.AccessKeyID, a.SecretAccessKey, a.SessionToken)
}

// Digest is the SHA-256 of a client key. Since a weak key can be found from its digest, only the start of a digest is
// printed.
type Digest [sha256.Size]byte

// String returns the first eight hexadecimal digits.
func (d Digest) String() string { return "sha256:" + hex.EncodeToString(d[:4]) + "…" }

// Format writes String for every verb.
func (d Digest) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, d.String()) }

// MarshalText is used by encoding/json and other encoders.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

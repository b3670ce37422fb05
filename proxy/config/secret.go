package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
)

// redacted stands for a Secret wherever one is printed.
const redacted = "[redacted]"

// Secret is a credential. It prints as "[redacted]" whatever the verb or the encoder, and as nothing where it is empty;
// Reveal is the only way to its value.
type Secret string

// Reveal returns the credential itself.
func (s Secret) Reveal() string { return string(s) }

// String returns what may be shown.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return redacted
}

// Format is there beside String because fmt prints the value itself under a verb that does not fit a string.
func (s Secret) Format(f fmt.State, verb rune) {
	if verb == 'q' || verb == 'v' && f.Flag('#') {
		fmt.Fprintf(f, "%q", s.String())
		return
	}
	_, _ = io.WriteString(f, s.String())
}

// MarshalText serves encoding/json and every other encoder of text.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue serves log/slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// Format is there because fmt prints what a pointer leads to, without a look at the methods of its parts, under a verb that
// does not fit a pointer.
func (a AWS) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "{%s %s %s %s %s %s}", a.Region, a.Service, a.Profile, a.AccessKeyID, a.SecretAccessKey, a.SessionToken)
}

// Digest is the SHA-256 of a client's key. The digest of a weak key gives the key away, so only its beginning is shown.
type Digest [sha256.Size]byte

// String returns the first eight hexadecimal digits.
func (d Digest) String() string { return "sha256:" + hex.EncodeToString(d[:4]) + "…" }

// Format prints String for every verb.
func (d Digest) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, d.String()) }

// MarshalText serves encoding/json and every other encoder of text.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// Package oci reads and writes the data of OCI artifacts: references, digests, manifests, and the layers that contain a
// plugin's module.
//
// It owns the syntax of references ("oci://registry/repository@sha256:…"), which layouts of a manifest contain a
// module, and the limits for sizes. It uses neither the network, which is up to package distribution, nor files, which
// are up to package pull.
//
// Concurrency: all functions are safe for concurrent use, and values are immutable.
package oci

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

// Scheme is the beginning of a reference.
const Scheme = "oci://"

// Digest is a SHA-256 in the notation of OCI: "sha256:" and 64 lower-case hexadecimal digits. "" is none.
type Digest string

const sha256Prefix = "sha256:"

// DigestOf returns the digest of content.
func DigestOf(content []byte) Digest {
	sum := sha256.Sum256(content)
	return Digest(sha256Prefix + hex.EncodeToString(sum[:]))
}

// Valid reports whether the digest is a SHA-256 in its only notation.
func (d Digest) Valid() bool {
	digits, ok := strings.CutPrefix(string(d), sha256Prefix)
	return ok && len(digits) == 2*sha256.Size && strings.Trim(digits, "0123456789abcdef") == ""
}

// Hex returns the hexadecimal digits of a valid digest.
func (d Digest) Hex() string { return strings.TrimPrefix(string(d), sha256Prefix) }

// Check returns an error unless content has the digest.
func (d Digest) Check(content []byte) error {
	if have := DigestOf(content); have != d {
		return fmt.Errorf("the content has the digest %s, not %s", have, d)
	}
	return nil
}

// Reference names a manifest in a registry, by its digest, a tag, or both. If it has both, the tag is only for people.
// The zero value names nothing.
type Reference struct {
	Registry   string // host or host:port
	Repository string // such as "acme/mine"
	Tag        string // "" if there is none
	Digest     Digest // "" if there is none
}

// The limits and the syntax are those of the OCI distribution specification.
const (
	maxRepository = 255
	maxReference  = 1024
)

var (
	repositorySyntax = regexp.MustCompile(`^[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*$`)
	tagSyntax        = regexp.MustCompile(`^[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}$`)
)

// IsReference reports whether a text is meant as a reference rather than as a file name.
func IsReference(text string) bool { return strings.HasPrefix(text, Scheme) }

// ParseReference parses a reference. Its errors do not quote the text, which may contain a password.
func ParseReference(text string) (Reference, error) {
	rest, ok := strings.CutPrefix(text, Scheme)
	if !ok {
		return Reference{}, errors.New("must start with oci://")
	}
	if len(text) > maxReference {
		return Reference{}, errors.New("is too long")
	}
	var r Reference
	name, digest, pinned := strings.Cut(rest, "@")
	if pinned && !strings.Contains(digest, "/") {
		if r.Digest = Digest(digest); !r.Digest.Valid() {
			return Reference{}, errors.New("must end with @sha256: and 64 hexadecimal digits in lower case")
		}
	} else if pinned {
		return Reference{}, errors.New("must not contain a user or password; put the credential in [registries]")
	}
	registry, repository, found := strings.Cut(name, "/")
	if !found {
		return Reference{}, errors.New("has no repository: want oci://REGISTRY/REPOSITORY@sha256:…")
	}
	if err := CheckRegistry(registry); err != nil {
		return Reference{}, err
	}
	if at := strings.LastIndexByte(repository, ':'); at >= 0 {
		repository, r.Tag = repository[:at], repository[at+1:]
		if !tagSyntax.MatchString(r.Tag) {
			return Reference{}, errors.New("has an invalid tag")
		}
	}
	if len(repository) > maxRepository || !repositorySyntax.MatchString(repository) {
		return Reference{}, errors.New("has an invalid repository: it has lower-case letters, digits, and single '.', '_', '-' and '/' between them")
	}
	if r.Tag == "" && r.Digest == "" {
		return Reference{}, errors.New("has neither a digest nor a tag: want oci://REGISTRY/REPOSITORY@sha256:…")
	}
	r.Registry, r.Repository = registry, repository
	return r, nil
}

// CheckRegistry returns an error unless a text is the name of a registry: a host in lower case, and optionally a port.
func CheckRegistry(registry string) error {
	host := registry
	if at := strings.LastIndexByte(registry, ':'); at >= 0 && !strings.HasSuffix(registry, "]") {
		port, err := strconv.ParseUint(registry[at+1:], 10, 16)
		if err != nil || port == 0 || strconv.FormatUint(port, 10) != registry[at+1:] {
			return errors.New("has an invalid port")
		}
		host = registry[:at]
	}
	if literal, ok := strings.CutPrefix(host, "["); ok {
		literal, ok = strings.CutSuffix(literal, "]")
		if ip, err := netip.ParseAddr(literal); !ok || err != nil || !ip.Is6() || ip.Zone() != "" {
			return errors.New("has an invalid address of a registry")
		}
		return nil
	}
	if len(host) == 0 || len(host) > 253 {
		return errors.New("has no registry: want oci://REGISTRY/REPOSITORY@sha256:…")
	}
	for label := range strings.SplitSeq(host, ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || label[0] == '-' || label[len(label)-1] == '-' {
			return errors.New("has an invalid registry: want a host name in lower case, and optionally a port")
		}
	}
	return nil
}

// Host returns the host of a registry, without its port.
func Host(registry string) string {
	if host, _, err := net.SplitHostPort(registry); err == nil {
		return host
	}
	return strings.Trim(registry, "[]")
}

// String returns the reference as it is written in a configuration.
func (r Reference) String() string {
	s := Scheme + r.Registry + "/" + r.Repository
	if r.Tag != "" {
		s += ":" + r.Tag
	}
	if r.Digest != "" {
		s += "@" + string(r.Digest)
	}
	return s
}

package plugin

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/glob"
)

// maxPath is the maximum length of a request's path with its query.
const maxPath = 4 << 10

// shortPath is the length up to which a path is decoded in a buffer on the stack. Goroutine stacks grow by doubling and
// shrink late, so a buffer for the longest path would leave many open streams with large stacks.
const shortPath = 128

// pattern is one of a provider's allowed paths, split into segments. In a segment `*` matches any number of bytes but
// no slash, so a pattern fixes the number of segments:
//
//	/v1/messages
//	/v1beta/models/*:generateContent
//	/model/*/converse-stream          a percent-encoded slash is part of its segment
//
// A pattern is compared with the path byte for byte, without decoding, and without the query.
type pattern []string

func parsePattern(s string) (pattern, error) {
	if !strings.HasPrefix(s, "/") {
		return nil, fmt.Errorf("path %q does not begin with a slash", s)
	}
	for i := range len(s) {
		switch {
		case s[i] == '?':
			return nil, fmt.Errorf("path %q contains a query: patterns match paths only", s)
		case !inURI(s[i]):
			return nil, fmt.Errorf("path %q contains %q, which must be percent-encoded", s, s[i])
		}
	}
	p := pattern(strings.Split(s[1:], "/"))
	for _, seg := range p {
		if seg == "" || seg == "." || seg == ".." {
			return nil, fmt.Errorf("path %q contains an empty or dot segment", s)
		}
	}
	return p, nil
}

func (p pattern) match(path []byte) bool {
	path = path[1:]
	for i, seg := range p {
		part, rest, more := bytes.Cut(path, []byte{'/'})
		if more != (i < len(p)-1) || !glob.Match(seg, part, 1) {
			return false
		}
		path = rest
	}
	return true
}

var (
	errPathLong  = fmt.Errorf("longer than %d bytes", maxPath)
	errPathForm  = errors.New("malformed: want one leading slash, no empty or dot segment, and percent-encoding")
	errPathRules = errors.New("not allowed")
	errPathQuery = errors.New("its query sets the credential's parameter")
)

// checkPath returns the reason why a plugin's path is refused, or nil. The path is decoded for the check only and sent
// unchanged.
func checkPath(path []byte, allowed []pattern, credentialQuery string) error {
	p, query, _ := bytes.Cut(path, []byte{'?'})
	if len(p) < 2 || p[0] != '/' {
		return errPathForm
	}
	for _, c := range path {
		if !inURI(c) {
			return errPathForm
		}
	}
	var buf [shortPath]byte
	plain, ok := unescape(buf[:0], p[1:])
	if !ok {
		return errPathForm
	}
	// Check segments in the decoded form, in which an encoded slash is a separator, too: "..%2f" must not reach the
	// parent directory in a server that decodes it.
	for {
		seg, rest, more := bytes.Cut(plain, []byte{'/'})
		if len(seg) == 0 || string(seg) == "." || string(seg) == ".." {
			return errPathForm
		}
		for _, c := range seg {
			if c < ' ' || c == 0x7f || c == '\\' {
				return errPathForm
			}
		}
		if !more {
			break
		}
		plain = rest
	}
	if err := checkQuery(query, credentialQuery); err != nil {
		return err
	}
	for _, a := range allowed {
		if a.match(p) {
			return nil
		}
	}
	return errPathRules
}

// inURI reports whether a byte is allowed in a path or query (RFC 3986, sections 3.3 and 3.4). All others must be
// percent-encoded, because servers differ in how they interpret them.
func inURI(c byte) bool {
	switch {
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		return true
	}
	return strings.IndexByte("/?%-._~!$&'()*+,;=:@", c) >= 0
}

// checkQuery rejects the parameter that carries the credential, in every spelling that a server might accept.
func checkQuery(query []byte, credential string) error {
	var buf [shortPath]byte
	for len(query) > 0 {
		var member []byte
		if i := bytes.IndexAny(query, "&;"); i >= 0 {
			member, query = query[:i], query[i+1:]
		} else {
			member, query = query, nil
		}
		name, value, _ := bytes.Cut(member, []byte{'='})
		if _, ok := unescape(buf[:0], value); !ok {
			return errPathForm
		}
		plain, ok := unescape(buf[:0], name)
		if !ok {
			return errPathForm
		}
		if credential != "" && strings.EqualFold(string(plain), credential) {
			return errPathQuery
		}
	}
	return nil
}

// unescape appends s to dst with its percent-encoding decoded once. It returns false if a % is not followed by two
// hexadecimal digits.
func unescape(dst, s []byte) ([]byte, bool) {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '%' {
			if i+2 >= len(s) {
				return dst, false
			}
			hi, lo := unhex(s[i+1]), unhex(s[i+2])
			if hi > 15 || lo > 15 {
				return dst, false
			}
			c = hi<<4 | lo
			i += 2
		}
		dst = append(dst, c)
	}
	return dst, true
}

func unhex(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10
	}
	return 0xff
}

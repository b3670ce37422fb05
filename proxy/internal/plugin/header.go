package plugin

import (
	"fmt"
	"strings"

	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Bounds of the headers that a plugin may set on a request.
const (
	maxHeaders     = 32
	maxHeaderValue = 4 << 10
)

// neverSet are headers that no configuration lets a plugin set: they carry credentials, frame the message, are of one
// hop only, or say who asked. Names with a prefix of neverSetPrefix belong to them.
var neverSet = map[string]bool{
	"authorization": true, "proxy-authorization": true, "proxy-authenticate": true, "proxy-connection": true,
	"host": true, "cookie": true, "set-cookie": true, "cookie2": true,
	"content-length": true, "transfer-encoding": true, "content-encoding": true, "te": true, "trailer": true,
	"expect": true, "upgrade": true, "connection": true, "keep-alive": true, "http2-settings": true,
	"accept-encoding": true, "range": true,
	"forwarded": true, "via": true, "x-real-ip": true,
}

var neverSetPrefix = [...]string{"x-amz-", "x-forwarded-", "proxy-"}

// neverRead are headers of an answer that no plugin may read.
var neverRead = map[string]bool{
	"set-cookie": true, "set-cookie2": true, "location": true, "content-location": true, "refresh": true,
	"www-authenticate": true, "proxy-authenticate": true, "authentication-info": true, "proxy-authentication-info": true,
	"authorization": true, "proxy-authorization": true, "cookie": true,
}

func mayNeverSet(lower string) bool {
	if neverSet[lower] {
		return true
	}
	for _, p := range neverSetPrefix {
		if strings.HasPrefix(lower, p) {
			return true
		}
	}
	return false
}

// allowList makes the set of headers that a binding's plugin may set. A name that may never be set is an error of the
// configuration, so that nobody believes it works.
func allowList(names []string, credential string) (map[string]bool, error) {
	m := make(map[string]bool, len(names))
	for _, n := range names {
		l := strings.ToLower(n)
		switch {
		case !isToken([]byte(l)):
			return nil, fmt.Errorf("header %q is not a header's name", n)
		case mayNeverSet(l):
			return nil, fmt.Errorf("header %q may not be set by a plugin", n)
		case credential != "" && l == strings.ToLower(credential):
			return nil, fmt.Errorf("header %q is the credential's", n)
		}
		m[l] = true
	}
	return m, nil
}

// lowered appends a header's name in lower case.
func lowered(dst, name []byte) []byte {
	for _, b := range name {
		if b >= 'A' && b <= 'Z' {
			b += 'a' - 'A'
		}
		dst = append(dst, b)
	}
	return dst
}

// texts are short texts that a plugin says again and again, paths and headers, so that they are not allocated for each
// request. They belong to an instance, and go with what it knows of a tenant.
type texts map[string]string

const maxTexts = 64

func (t *texts) text(p []byte) string {
	if s, ok := (*t)[string(p)]; ok {
		return s
	}
	s := string(p)
	if len(p) <= abi.MaxName && len(*t) < maxTexts {
		if *t == nil {
			*t = make(texts)
		}
		(*t)[s] = s
	}
	return s
}

// isToken reports whether s can be the name of a header (RFC 9110, 5.6.2).
func isToken(s []byte) bool {
	for _, c := range s {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return len(s) > 0
}

// isFieldValue reports whether s can be the value of a header: visible ASCII, spaces and tabs.
func isFieldValue(s []byte) bool {
	for _, c := range s {
		if c < ' ' && c != '\t' || c >= 0x7f {
			return false
		}
	}
	return true
}

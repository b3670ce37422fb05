package plugin

import (
	"fmt"
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/httpfield"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Limits of the headers that a plugin sets on a request.
const (
	maxHeaders     = 32
	maxHeaderValue = 4 << 10
)

// neverSet are request headers that no configuration can allow a plugin to set: they carry credentials, frame the
// message, are hop-by-hop, or identify the client. The same holds for names with a prefix in neverSetPrefix.
var neverSet = map[string]bool{
	"authorization": true, "proxy-authorization": true, "proxy-authenticate": true, "proxy-connection": true,
	"host": true, "cookie": true, "set-cookie": true, "cookie2": true,
	"content-length": true, "transfer-encoding": true, "content-encoding": true, "te": true, "trailer": true,
	"expect": true, "upgrade": true, "connection": true, "keep-alive": true, "http2-settings": true,
	"accept-encoding": true, "range": true,
	"forwarded": true, "via": true, "x-real-ip": true,
}

var neverSetPrefix = [...]string{"x-amz-", "x-forwarded-", "proxy-"}

// neverRead are response headers that no plugin may read.
var neverRead = map[string]bool{
	"set-cookie": true, "set-cookie2": true, "location": true, "content-location": true, "refresh": true,
	"www-authenticate": true, "proxy-authenticate": true, "authentication-info": true, "proxy-authentication-info": true,
	"authorization": true, "proxy-authorization": true, "cookie": true,
}

// MayReadHeader reports whether plugins may read a response header. The name must be in lower case.
func MayReadHeader(lower string) bool { return !neverRead[lower] }

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

// parseAllowedHeaders returns the set of headers that a binding's plugin may set. A name that may never be set is a
// configuration error.
func parseAllowedHeaders(names []string, credential string) (map[string]bool, error) {
	m := make(map[string]bool, len(names))
	for _, n := range names {
		l := strings.ToLower(n)
		switch {
		case !httpfield.ValidName(l):
			return nil, fmt.Errorf("header %q: invalid name", n)
		case mayNeverSet(l):
			return nil, fmt.Errorf("header %q may not be set by a plugin", n)
		case credential != "" && l == strings.ToLower(credential):
			return nil, fmt.Errorf("header %q carries the credential", n)
		}
		m[l] = true
	}
	return m, nil
}

// interned holds paths and headers that a plugin has used, so that repeating them does not allocate for each request.
// It belongs to an instance, and is cleared when the instance is reset for another tenant.
type interned map[string]string

const maxInterned = 64

func (t *interned) intern(p []byte) string {
	if s, ok := (*t)[string(p)]; ok {
		return s
	}
	s := string(p)
	if len(p) <= abi.MaxName && len(*t) < maxInterned {
		if *t == nil {
			*t = make(interned)
		}
		(*t)[s] = s
	}
	return s
}

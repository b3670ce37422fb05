package plugin

import (
	"fmt"
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/httpfield"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Limits of the headers that a plugin may set on a request.
const (
	maxHeaders     = 32
	maxHeaderValue = 4 << 10
)

// neverSet are headers that no configuration lets a plugin set: they carry credentials, frame the message, are
// hop-by-hop, or identify the client. So do those with a prefix in neverSetPrefix.
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

// MayReadHeader reports whether plugins may read a response header; the name is in lower case.
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

// parseAllowedHeaders makes the set of headers that a binding's plugin may set. A name that may never be set is an error of
// the configuration, rather than ignored.
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

// interned are the short texts that a plugin repeats, paths and headers, so that they are not allocated for each
// request. They belong to an instance, and are cleared when it is reset for another tenant.
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

package plugin

import (
	"fmt"
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/httpfield"
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
		case !httpfield.ValidName(l):
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

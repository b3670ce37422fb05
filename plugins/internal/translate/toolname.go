package translate

import (
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

// NameRule tells which names of tools a provider accepts. The zero value accepts all.
type NameRule struct {
	Max    int    // length of the longest name
	Others string // bytes that are allowed besides letters, digits and _
	Digit  bool   // a name may begin with a digit or one of Others
}

// Accepts reports whether the provider accepts a name.
func (n *NameRule) Accepts(name []byte) bool {
	if n.Max == 0 {
		return true
	}
	if len(name) == 0 || len(name) > n.Max || !n.Digit && !n.begins(name[0]) {
		return false
	}
	if n.allows('-') && ValidName(name) {
		return true
	}
	for _, c := range name {
		if !n.allows(c) {
			return false
		}
	}
	return true
}

func (n *NameRule) begins(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_'
}

func (n *NameRule) allows(c byte) bool {
	if n.begins(c) || '0' <= c && c <= '9' {
		return true
	}
	for i := range len(n.Others) {
		if c == n.Others[i] {
			return true
		}
	}
	return false
}

// Append appends a name, or if the provider does not accept it, a valid name derived from it and made unique by a hash.
// The same name and salt always give the same result, so that results refer to their calls, and the turns of a
// conversation match.
func (n *NameRule) Append(dst, name []byte, salt uint64) []byte {
	if n.Accepts(name) {
		return append(dst, name...)
	}
	const (
		digits = "0123456789abcdef"
		tail   = 1 + 16
	)
	from := len(dst)
	if !n.Digit && len(name) > 0 && !n.begins(name[0]) {
		dst = append(dst, '_')
	}
	hash := uint64(0xcbf29ce484222325) // FNV-1a
	for _, c := range name {
		hash = (hash ^ uint64(c)) * 0x100000001b3
		switch {
		case len(dst)-from >= n.Max-tail:
		case n.allows(c):
			dst = append(dst, c)
		default:
			dst = append(dst, '_')
		}
	}
	if salt > 0 {
		hash = (hash ^ salt) * 0x100000001b3
	}
	dst = append(dst, '_')
	for shift := 60; shift >= 0; shift -= 4 {
		dst = append(dst, digits[hash>>shift&15])
	}
	return dst
}

// ToolNames gives aliases to the tools of a request whose names the provider does not accept. The gateway replaces them
// by the client's names in the response. No two tools of a request have the same name.
type ToolNames struct {
	Request *provider.Request
	Rule    NameRule

	aliases map[string][]byte // by the client's name
	taken   map[string]bool
}

// Fit returns the name that the provider receives for a tool. Both names are escaped string contents.
func (n *ToolNames) Fit(inside []byte) []byte {
	if n.Rule.Accepts(inside) {
		return inside
	}
	name := json.AppendText(nil, inside)
	if n.Rule.Accepts(name) {
		return inside // only its spelling has escapes
	}
	if n.aliases == nil {
		n.aliases, n.taken = map[string][]byte{}, map[string]bool{}
		n.readNames()
	}
	alias, ok := n.aliases[string(name)]
	if ok {
		return alias
	}
	alias = n.Rule.Append(nil, name, 0)
	for salt := uint64(1); n.taken[string(alias)]; salt++ {
		alias = n.Rule.Append(alias[:0], name, salt)
	}
	n.aliases[string(name)], n.taken[string(alias)] = alias, true
	n.Request.ToolAlias(alias, name)
	return alias
}

// readNames records the names of the request's tools.
func (n *ToolNames) readNames() {
	for i := 0; ; i++ {
		tool := "/tools/" + Itoa(i)
		name := n.Request.Get(tool + "/function/name")
		if !name.Exists() {
			name = n.Request.Get(tool + "/custom/name")
		}
		if !name.Exists() {
			return
		}
		n.taken[string(name.Text())] = true
	}
}

package messages

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// longestName is how long the name of a tool may be for every provider. Those of MCP servers' tools are often longer, and the
// Messages API takes them.
const longestName = 64

// isLongName reports whether a tool needs another name for providers of other APIs. What is not a word is left to their plugins.
func isLongName(name jsondoc.Value) bool {
	s := name.Inside()
	if len(s) <= longestName {
		return false
	}
	for _, c := range s {
		if !(c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '-') {
			return false
		}
	}
	return true
}

// appendShortName appends the name by which a provider of another API knows the tool with a long name: the beginning of it, and a
// hash, so that a conversation has the same one in all of its requests.
func appendShortName(dst, name []byte) []byte {
	const hashed = 8 // bytes
	sum := sha256.Sum256(name)
	dst = append(append(dst, name[:longestName-2*hashed-1]...), '_')
	return hex.AppendEncode(dst, sum[:hashed])
}

// toolName appends the name of a tool as a JSON string.
func (c *lowering) toolName(name jsondoc.Value) {
	if !isLongName(name) {
		c.raw(name)
		return
	}
	c.dst = append(appendShortName(append(c.dst, '"'), name.Inside()), '"')
}

// renamed is a tool with a long name, by the name that a provider of another API calls it by.
type renamed struct{ short, name []byte }

// ownName returns the client's name of a tool for a provider's.
func ownName(tools []renamed, name []byte) []byte {
	for i := range tools {
		if string(tools[i].short) == string(name) {
			return tools[i].name
		}
	}
	return name
}

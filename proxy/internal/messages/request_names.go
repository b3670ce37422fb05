package messages

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// longestName is the longest tool name that every provider accepts. The names of MCP tools are often longer, and the
// Messages API accepts them.
const longestName = 64

// isLongName reports whether a tool name must be shortened for providers of other APIs. Names with characters other
// than letters, digits, _ and - are left to the plugins.
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

// appendShortName appends the short form of a long tool name: its beginning and a hash of it, so that all requests of a
// conversation have the same.
func appendShortName(dst, name []byte) []byte {
	const hashBytes = 8
	sum := sha256.Sum256(name)
	dst = append(append(dst, name[:longestName-2*hashBytes-1]...), '_')
	return hex.AppendEncode(dst, sum[:hashBytes])
}

// writeToolName appends the name of a tool as a JSON string, shortened if necessary.
func (c *lowering) writeToolName(name jsondoc.Value) {
	if !isLongName(name) {
		c.writeRaw(name)
		return
	}
	c.dst = append(appendShortName(append(c.dst, '"'), name.Inside()), '"')
}

// renamedTool is a tool with a long name, and the short one that a provider of another API uses.
type renamedTool struct{ short, name []byte }

// clientToolName returns the client's name of a tool that a provider calls by name.
func clientToolName(tools []renamedTool, name []byte) []byte {
	for i := range tools {
		if string(tools[i].short) == string(name) {
			return tools[i].name
		}
	}
	return name
}

package translate

import "github.com/sluice-gateway/sluice/sdk/json"

// AppendCompact appends a value without the white space around its parts. Strings stay unchanged, even with lone surrogates, and
// so do members that come twice: tool arguments are passed on as the model wrote them.
func AppendCompact(dst []byte, v json.Value) []byte {
	quoted := false
	for i := 0; i < len(v); i++ {
		c := v[i]
		switch {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\' && i+1 < len(v):
			dst = append(dst, c)
			i++
			c = v[i]
		case !quoted && c <= ' ':
			continue
		}
		dst = append(dst, c)
	}
	return dst
}

package translate

import "github.com/sluice-gateway/sluice/sdk/json"

// AppendCompact appends a value without insignificant white space. Strings, even those with unpaired surrogates, and
// duplicate members stay unchanged, because tool arguments are passed on as the model wrote them.
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

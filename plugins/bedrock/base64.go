package bedrock

// sextet returns the value of a base64 character, -1 if it is invalid.
func sextet(c byte) int {
	switch {
	case 'A' <= c && c <= 'Z':
		return int(c - 'A')
	case 'a' <= c && c <= 'z':
		return int(c-'a') + 26
	case '0' <= c && c <= '9':
		return int(c-'0') + 52
	case c == '+':
		return 62
	case c == '/':
		return 63
	}
	return -1
}

// appendDecoded appends the bytes that s encodes. s must be valid base64.
func appendDecoded(dst, s []byte) []byte {
	for ; len(s) >= 4; s = s[4:] {
		var group uint32
		n := 0
		for _, c := range s[:4] {
			group <<= 6
			if c != '=' {
				group |= uint32(sextet(c))
				n++
			}
		}
		dst = append(dst, byte(group>>16), byte(group>>8), byte(group))
		dst = dst[:len(dst)-(4-n)]
	}
	return dst
}

// appendEncoded appends p in base64, with padding.
func appendEncoded(dst, p []byte) []byte {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	for ; len(p) >= 3; p = p[3:] {
		dst = append(dst, letters[p[0]>>2], letters[p[0]<<4&63|p[1]>>4], letters[p[1]<<2&63|p[2]>>6], letters[p[2]&63])
	}
	switch len(p) {
	case 1:
		dst = append(dst, letters[p[0]>>2], letters[p[0]<<4&63], '=', '=')
	case 2:
		dst = append(dst, letters[p[0]>>2], letters[p[0]<<4&63|p[1]>>4], letters[p[1]<<2&63], '=')
	}
	return dst
}

package bedrock

const (
	lanes    = 0x0101010101010101
	highBits = 0x80 * lanes
)

// base64Valid reports whether s is base64 of the standard alphabet with its padding (RFC 4648, section 4). It checks
// eight bytes at a time: an image dominates its request.
func base64Valid(s []byte) bool {
	if len(s) == 0 || len(s)%4 != 0 {
		return false
	}
	end := len(s)
	for range 2 {
		if s[end-1] == '=' {
			end--
		}
	}
	i := 0
	for ; i+8 <= end; i += 8 {
		p := s[i : i+8 : i+8]
		w := uint64(p[0]) | uint64(p[1])<<8 | uint64(p[2])<<16 | uint64(p[3])<<24 |
			uint64(p[4])<<32 | uint64(p[5])<<40 | uint64(p[6])<<48 | uint64(p[7])<<56
		if base64Lanes(w) != highBits {
			return false
		}
	}
	for ; i < end; i++ {
		if sextet(s[i]) < 0 {
			return false
		}
	}
	return true
}

// base64Lanes marks the high bit of each of eight bytes that belongs to the alphabet of base64. No lane carries into its
// neighbour: the high bits are masked out before anything is added.
func base64Lanes(w uint64) uint64 {
	low := w &^ highBits
	lower := low | 0x20*lanes // letters in lower case; nothing else becomes one
	in := between(lower, 'a', 'z') | between(low, '/', '9') | between(low, '+', '+')
	return in &^ w & highBits
}

// between marks the lanes of w, each below 0x80, that lie in a range of bytes.
func between(w uint64, from, to uint64) uint64 {
	return (w + (0x80-from)*lanes) &^ (w + (0x80-to-1)*lanes)
}

// sextet is what a character of base64 stands for, -1 if it is none.
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

// appendDecoded appends what base64 stands for. s is valid.
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

// appendEncoded appends p in base64, with padding at its end.
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

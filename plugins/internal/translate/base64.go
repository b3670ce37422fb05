package translate

// ValidBase64 reports whether s is padded base64 in the standard alphabet (RFC 4648, section 4). It checks eight bytes
// at a time, because images make up most of the requests that contain them.
func ValidBase64(s []byte) bool {
	if len(s) == 0 || len(s)%4 != 0 {
		return false
	}
	for range 2 {
		if s[len(s)-1] == '=' {
			s = s[:len(s)-1]
		}
	}
	i := 0
	for ; i+8 <= len(s); i += 8 {
		if base64Lanes(Load8(s[i:])) != highBits {
			return false
		}
	}
	var rest [8]byte
	copy(rest[copy(rest[:], s[i:]):], "AAAAAAAA")
	return base64Lanes(Load8(rest[:])) == highBits
}

// Load8 loads eight bytes as a little-endian word. It compiles to one load.
func Load8(b []byte) uint64 {
	_ = b[7]
	return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
		uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
}

const (
	lanes    = 0x0101010101010101
	highBits = 0x80 * lanes
)

// base64Lanes sets the high bit of each of the eight bytes in w that belongs to the base64 alphabet. No lane carries
// into its neighbour, because the high bits are masked out before anything is added.
func base64Lanes(w uint64) uint64 {
	low := w &^ highBits
	letters := low | 0x20*lanes
	// The lanes that are at least c are marked by adding 0x80-c.
	letter := (letters + (0x80-'a')*lanes) &^ (letters + (0x80-'z'-1)*lanes)
	digit := (low + (0x80-'0')*lanes) &^ (low + (0x80-'9'-1)*lanes)
	plus := (low + (0x80-'+')*lanes) &^ (low + (0x80-'+'-1)*lanes)
	slash := (low + (0x80-'/')*lanes) &^ (low + (0x80-'/'-1)*lanes)
	// The bit 0x20 turns @ into ` and [ \ ] ^ _ into { | } ~ DEL, none of which are between a and z.
	return (letter | digit | plus | slash) &^ w & highBits
}

// nameLanes is base64Lanes for the alphabet of NameByte.
func nameLanes(w uint64) uint64 {
	low := w &^ highBits
	letters := low | 0x20*lanes
	letter := (letters + (0x80-'a')*lanes) &^ (letters + (0x80-'z'-1)*lanes)
	digit := (low + (0x80-'0')*lanes) &^ (low + (0x80-'9'-1)*lanes)
	dash := (low + (0x80-'-')*lanes) &^ (low + (0x80-'-'-1)*lanes)
	bar := (low + (0x80-'_')*lanes) &^ (low + (0x80-'_'-1)*lanes)
	return (letter | digit | dash | bar) &^ w & highBits
}

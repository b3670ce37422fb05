package json

// parseUint parses decimal digits.
func parseUint(b []byte) (n uint64, ok bool) {
	if len(b) == 0 {
		return 0, false
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		d := uint64(c - '0')
		if n > (1<<64-1-d)/10 {
			return 0, false
		}
		n = n*10 + d
	}
	return n, true
}

// parseInt parses decimal digits with an optional minus sign.
func parseInt(b []byte) (n int64, ok bool) {
	negative := len(b) > 1 && b[0] == '-'
	if negative {
		b = b[1:]
	}
	u, ok := parseUint(b)
	switch {
	case !ok:
		return 0, false
	case negative && u <= 1<<63:
		return -int64(u), true
	case !negative && u < 1<<63:
		return int64(u), true
	}
	return 0, false
}

// parseIntAt is parseInt for data[start:end]. It parses up to 16 digits without a loop if 16 bytes can be loaded.
func parseIntAt(data []byte, start, end int) (n int64, ok bool) {
	size := uint(end - start)
	if size-1 >= 16 || start+16 > len(data) {
		return parseInt(data[start:end])
	}
	head := load8(data, start) ^ zeros
	if size <= 8 {
		if head <<= 64 - 8*size; notDigits(head^zeros) != 0 {
			return parseInt(data[start:end])
		}
		return eightDigits(head), true
	}
	tail := (load8(data, start+8) ^ zeros) << (128 - 8*size)
	if notDigits(head^zeros)|notDigits(tail^zeros) != 0 {
		return parseInt(data[start:end])
	}
	return eightDigits(head)*powers[size-8] + eightDigits(tail), true
}

const zeros = '0' * lanes

var powers = [9]int64{1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8}

// notDigits sets the high bit of each lane that is not a decimal digit.
func notDigits(w uint64) uint64 {
	w ^= zeros
	return (w&^highBits + (0x80-10)*lanes | w) & highBits
}

// eightDigits returns the number formed by eight digits. Each lane contains a digit's value, the first digit in the
// lowest lane.
func eightDigits(w uint64) int64 {
	w = (w*10 + w>>8) & 0x00ff00ff00ff00ff
	w = (w*100 + w>>16) & 0x0000ffff0000ffff
	return int64((w*10000 + w>>32) & 0xffffffff)
}

func parseBool(b []byte) (value, ok bool) {
	switch string(b) {
	case "true":
		return true, true
	case "false":
		return false, true
	}
	return false, false
}

// ParseFloat parses a JSON number. The result is exact for up to 15 digits and exponents from -22 to 22; otherwise it
// is accurate to about 15 digits. Numbers that are too large become the largest finite one. The package does not use
// strconv, because it would make a small module 10% larger.
func ParseFloat(b []byte) (f float64, ok bool) {
	if numberEnd(b, 0) != len(b) {
		return 0, false
	}
	i, negative := 0, b[0] == '-'
	if negative {
		i++
	}
	var mantissa uint64
	exponent, fraction := 0, false
	for ; i < len(b); i++ {
		c := b[i]
		if c == '.' {
			fraction = true
			continue
		}
		if c == 'e' || c == 'E' {
			exponent += parseExponent(b[i+1:])
			break
		}
		if mantissa < 1e18 {
			mantissa = mantissa*10 + uint64(c-'0')
			if fraction {
				exponent--
			}
		} else if !fraction {
			exponent++
		}
	}
	f = scale(float64(mantissa), exponent)
	if negative {
		f = -f
	}
	return f, true
}

// maxExponent is larger than every exponent that makes a difference.
const maxExponent = 100000

func parseExponent(b []byte) int {
	negative := b[0] == '-'
	if negative || b[0] == '+' {
		b = b[1:]
	}
	n := 0
	for _, c := range b {
		if n < maxExponent {
			n = n*10 + int(c-'0')
		}
	}
	if negative {
		return -n
	}
	return n
}

var powersOfTen = [...]float64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
	1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22}

const maxFloat = 0x1p1023 * (1 + (1 - 0x1p-52))

// scale returns f times ten to the power of e.
func scale(f float64, e int) float64 {
	const step = len(powersOfTen) - 1
	if e < 0 {
		for ; e < -step && f != 0; e += step {
			f /= powersOfTen[step]
		}
		return f / powersOfTen[min(-e, step)]
	}
	for ; e > step && f != 0 && f <= maxFloat; e -= step {
		f *= powersOfTen[step]
	}
	return min(f*powersOfTen[min(e, step)], maxFloat)
}

// AppendInt appends a number.
func AppendInt(dst []byte, n int64) []byte {
	if n < 0 {
		return AppendUint(append(dst, '-'), -uint64(n))
	}
	return AppendUint(dst, uint64(n))
}

// AppendUint appends a number.
func AppendUint(dst []byte, n uint64) []byte {
	var digits [20]byte
	i := len(digits)
	for {
		i--
		digits[i] = byte('0' + n%10)
		if n /= 10; n == 0 {
			return append(dst, digits[i:]...)
		}
	}
}

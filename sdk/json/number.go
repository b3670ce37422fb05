package json

// parseUint reads decimal digits.
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

// parseInt reads decimal digits with an optional minus.
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

func parseBool(b []byte) (value, ok bool) {
	switch string(b) {
	case "true":
		return true, true
	case "false":
		return false, true
	}
	return false, false
}

// ParseFloat reads a JSON number. It is exact for up to 15 digits with an exponent of up to 22 either way, which holds
// every price, temperature and rate; beyond that it is right to about 15 digits. A number too large is the largest
// finite one. It stands in for strconv, which would add a tenth to a small guest.
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

// maxExponent is beyond every exponent that changes the result.
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

// scale is f times ten to the power of e.
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

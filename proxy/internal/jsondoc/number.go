package jsondoc

// maxExponent is the largest absolute value of a number's exponent. A number with a larger one overflows unless
// thousands of digits compensate for it, and parsers differ in their limits.
const maxExponent = 9999

// infinity is the smallest positive number that overflows a float64: 2^1024 - 2^970, which rounds up to 2^1024. It is
// an integer of 309 digits.
const infinity = "179769313486231580793728971405303415079934132710037826936173778980444968292764750946649017" +
	"977587207096330286416692887910946555547851940402630657488671505820681908902000708383676273" +
	"854845817711531764475730270069855571366959622842914819860834936475292719074168444365510704" +
	"342711559699508093042880177904174497792"

// scanNumber scans the number at i. It returns the index after it, or with a reason, the index at which it is rejected.
func scanNumber(b []byte, i int) (end int, reason string) {
	start := i
	if b[i] == '-' {
		i++
	}
	whole := i
	switch {
	case i < len(b) && b[i] == '0':
		i++
	default:
		if i = skipDigits(b, i); i == whole {
			return i, "expected a digit"
		}
	}
	far := i-whole > 308
	if i < len(b) && b[i] == '.' {
		fraction := i + 1
		if i = skipDigits(b, fraction); i == fraction {
			return i, "expected a digit"
		}
	}
	mantissa, exponent := i, 0
	if i < len(b) && b[i]|0x20 == 'e' {
		i++
		negative := false
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			negative = b[i] == '-'
			i++
		}
		digits := i
		for i < len(b) && '0' <= b[i] && b[i] <= '9' {
			if exponent <= maxExponent {
				exponent = exponent*10 + int(b[i]-'0')
			}
			i++
		}
		if i == digits {
			return i, "expected a digit"
		}
		if exponent > maxExponent {
			return start, "a number's exponent is too large"
		}
		far = true
		if negative {
			exponent = -exponent
		}
	}
	if far && overflows(b[whole:mantissa], exponent) {
		return start, "a number is too large"
	}
	return i, ""
}

// scanNumbers scans the elements of an array, the first of which begins at i. It returns the index of the closing
// bracket and the number of bytes of white space. ok is false if an element is not a valid number.
func scanNumbers(b []byte, i int) (end, spaces int, ok bool) {
	for i < len(b) && (b[i] == '-' || '0' <= b[i] && b[i] <= '9') {
		n, reason := scanNumber(b, i)
		if reason != "" {
			return 0, 0, false
		}
		i = skipSpace(b, n)
		spaces += i - n
		if i >= len(b) {
			return 0, 0, false
		}
		if b[i] == ']' {
			return i, spaces, true
		}
		if b[i] != ',' {
			return 0, 0, false
		}
		n = i + 1
		i = skipSpace(b, n)
		spaces += i - n
	}
	return 0, 0, false
}

// ValidNumbers reports whether json is an array of numbers that Doc.Parse accepts, with nothing before or after it.
func ValidNumbers(json []byte) bool {
	if len(json) < len("[]") || json[0] != '[' || len(json) > maxBody {
		return false
	}
	first := skipSpace(json, 1)
	if first == len(json)-1 {
		return json[first] == ']'
	}
	end, _, ok := scanNumbers(json, first)
	return ok && end == len(json)-1
}

func skipDigits(b []byte, i int) int {
	for i < len(b) && '0' <= b[i] && b[i] <= '9' {
		i++
	}
	return i
}

// overflows reports whether mantissa, which consists of digits and at most one point, times ten to the exponent is at
// least infinity. It reads every digit at most twice.
func overflows(mantissa []byte, exponent int) bool {
	// magnitude is the exponent of the value when written as 0.d… with d not zero.
	magnitude, point, first := exponent, false, -1
	for i, c := range mantissa {
		switch {
		case c == '.':
			point = true
			continue
		case c != '0' && first < 0:
			first = i
		}
		if !point && first >= 0 {
			magnitude++
		} else if point && first < 0 {
			magnitude--
		}
	}
	if first < 0 || magnitude != len(infinity) {
		return first >= 0 && magnitude > len(infinity)
	}
	n := 0
	for _, c := range mantissa[first:] {
		if c == '.' {
			continue
		}
		if n == len(infinity) {
			break
		}
		if c != infinity[n] {
			return c > infinity[n]
		}
		n++
	}
	// All n digits so far are equal. The number reaches infinity only if infinity's remaining digits are zeros.
	for ; n < len(infinity); n++ {
		if infinity[n] != '0' {
			return false
		}
	}
	return true
}

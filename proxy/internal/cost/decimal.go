package cost

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// Errors of the functions that parse decimal numbers.
var (
	ErrSyntax    = errors.New("not a decimal number")
	ErrPrecision = errors.New("too many decimal places")
	ErrRange     = errors.New("out of range")
)

// parseDecimal returns the exact value of a decimal number times 10^places. It accepts decimal numbers in the syntax of
// TOML and JSON.
func parseDecimal(s string, places int) (int64, error) {
	s = strings.ReplaceAll(s, "_", "")
	negative := strings.HasPrefix(s, "-")
	if negative || strings.HasPrefix(s, "+") {
		s = s[1:]
	}
	exponent := 0
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		var err error
		if exponent, err = strconv.Atoi(s[i+1:]); errors.Is(err, strconv.ErrSyntax) {
			return 0, ErrSyntax
		}
		exponent = min(max(exponent, -1<<20), 1<<20) // beyond these bounds the result is the same
		s = s[:i]
	}
	whole, fraction, _ := strings.Cut(s, ".")
	digits := whole + fraction
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return 0, ErrSyntax
	}
	exponent += places - len(fraction)
	shorter := strings.TrimRight(digits, "0")
	exponent += len(digits) - len(shorter)
	shorter = strings.TrimLeft(shorter, "0")
	switch {
	case shorter == "":
		return 0, nil
	case exponent < 0:
		return 0, ErrPrecision
	case len(shorter)+exponent > 19:
		return 0, ErrRange
	}
	n, err := strconv.ParseUint(shorter+strings.Repeat("0", exponent), 10, 64)
	switch {
	case err != nil || n > math.MaxInt64 && !(negative && n == 1<<63):
		return 0, ErrRange
	case negative:
		return -int64(n), nil
	}
	return int64(n), nil
}

// appendDecimal appends the exact value of n / 10^places without trailing zeros.
func appendDecimal(dst []byte, n int64, places int) []byte {
	magnitude, one := uint64(n), uint64(1)
	if n < 0 {
		dst, magnitude = append(dst, '-'), -magnitude
	}
	for range places {
		one *= 10
	}
	dst = strconv.AppendUint(dst, magnitude/one, 10)
	rest := magnitude % one
	if rest == 0 {
		return dst
	}
	for dst = append(dst, '.'); rest > 0; rest %= one {
		one /= 10
		dst = append(dst, '0'+byte(rest/one))
	}
	return dst
}

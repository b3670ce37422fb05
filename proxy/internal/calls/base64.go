package calls

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"strconv"
)

// appendBase64 appends a vector as base64 of its little-endian float32 values. numbers is a valid JSON array of
// numbers. ok is false if one of them does not fit a float32.
func appendBase64(dst, numbers []byte) (out []byte, ok bool) {
	// The size is a multiple of 4, the size of a float32, and of 3, so that only the last piece is padded.
	var piece [768]byte
	n := 0
	for i := 0; i < len(numbers); {
		c := numbers[i]
		if c != '-' && (c < '0' || c > '9') {
			i++ // a bracket, a comma, white space
			continue
		}
		end := i + 1
		for end < len(numbers) && numbers[end] > ' ' && numbers[end] != ',' && numbers[end] != ']' {
			end++
		}
		f, err := strconv.ParseFloat(string(numbers[i:end]), 32)
		if err != nil {
			return dst, false
		}
		binary.LittleEndian.PutUint32(piece[n:], math.Float32bits(float32(f)))
		if n += 4; n == len(piece) {
			dst = base64.StdEncoding.AppendEncode(dst, piece[:])
			n = 0
		}
		i = end
	}
	return base64.StdEncoding.AppendEncode(dst, piece[:n]), true
}

// appendNumbers appends a valid JSON array of numbers without its white space.
func appendNumbers(dst, numbers []byte) []byte {
	for _, c := range numbers {
		if c > ' ' {
			dst = append(dst, c)
		}
	}
	return dst
}

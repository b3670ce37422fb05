package anthropic

// The next three functions replace those of package bytes, which would add Unicode tables and more to the module.

func hasPrefix(s []byte, prefix string) bool {
	return len(s) >= len(prefix) && string(s[:len(prefix)]) == prefix
}

// cut removes a prefix.
func cut(s []byte, prefix string) (rest []byte, ok bool) {
	if !hasPrefix(s, prefix) {
		return nil, false
	}
	return s[len(prefix):], true
}

// index returns the index of the first occurrence of part in s, -1 if there is none.
func index(s []byte, part string) int {
	for i := 0; i+len(part) <= len(s); i++ {
		if s[i] == part[0] && string(s[i:i+len(part)]) == part {
			return i
		}
	}
	return -1
}

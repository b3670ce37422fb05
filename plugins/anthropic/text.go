package anthropic

// The package bytes would bring tables of Unicode and more into the module, which is the reason for the next three.

func hasPrefix(s []byte, prefix string) bool {
	return len(s) >= len(prefix) && string(s[:len(prefix)]) == prefix
}

// cut takes a prefix away.
func cut(s []byte, prefix string) (rest []byte, ok bool) {
	if !hasPrefix(s, prefix) {
		return nil, false
	}
	return s[len(prefix):], true
}

// index is where part stands in s for the first time, -1 if it does not.
func index(s []byte, part string) int {
	for i := 0; i+len(part) <= len(s); i++ {
		if s[i] == part[0] && string(s[i:i+len(part)]) == part {
			return i
		}
	}
	return -1
}

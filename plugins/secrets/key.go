package secrets

const (
	maxLabel     = 40
	minKeyLine   = 16  // minimum length of a line of base64 that belongs to a key
	maxBreaks    = 8   // maximum number of spaces and line breaks between two lines
	maxHeaders   = 4   // maximum number of header lines of an encrypted key
	maxHeader    = 90  // maximum length of a header line
	maxKeyBefore = 200 // approximate maximum length of everything before the base64
)

const endKey, dashes = "-----END ", "-----"

// key looks for a private key in PEM at i, where beginKey was found: the begin line, header lines, and base64 up to the
// end line, or if that is missing, up to the last line of at least minKeyLine bytes. It returns the position to
// continue from.
func (s *scanner) key(i int) int {
	after := i + len(beginKey)
	if s.find&(1<<privateKey) == 0 {
		return after
	}
	at, v := s.label(after)
	if v == more {
		s.hold = i
		return len(s.text)
	}
	if v != match || !isPrivate(s.text[after:at-len(dashes)]) {
		return after
	}
	for range maxHeaders {
		next, v := s.header(at)
		if v == more {
			s.hold = i
			return len(s.text)
		}
		if v != match || next-i > maxKeyBefore {
			break
		}
		at = next
	}
	end, continues := s.keyBody(at, false)
	switch {
	case continues:
		if end == at || !s.writeMask(i, privateKey) {
			s.hold = i
		}
		return len(s.text)
	case end == at:
		return after
	}
	return s.add(i, end, privateKey)
}

// isPrivate reports whether a label belongs to a private key, such as "RSA PRIVATE KEY" or "PGP PRIVATE KEY BLOCK".
func isPrivate(label []byte) bool {
	return endsWith(label, "PRIVATE KEY") || endsWith(label, "PRIVATE KEY BLOCK")
}

// label reads the rest of a begin or end line, and returns its end.
func (s *scanner) label(at int) (end int, v verdict) {
	i := at
	for ; i < len(s.text) && i-at <= maxLabel; i++ {
		if c := s.text[i]; (c < 'A' || c > 'Z') && class[c]&digit == 0 && c != ' ' {
			break
		}
	}
	v = s.prefix(i, len(s.text), !s.complete, dashes)
	return i + len(dashes), v
}

// header reads a header line, such as "DEK-Info: AES-256-CBC,…", including the breaks before it.
func (s *scanner) header(at int) (end int, v verdict) {
	at, cut := s.breaks(at)
	if cut {
		return 0, more
	}
	named := false
	for i := at; i < at+maxHeader; i++ {
		if i == len(s.text) {
			return 0, moreIf(!s.complete)
		}
		switch c := s.text[i]; {
		case c == '\n' || c == '\r' || c == '\\':
			if !named {
				return 0, noMatch
			}
			return i, match
		case c == ':':
			named = true
		case !named && class[c]&token == 0:
			return 0, noMatch
		}
	}
	return 0, noMatch
}

// breaks skips spaces and line breaks, including escaped ones (\n). cut is true if the text ends there but is not
// complete.
func (s *scanner) breaks(at int) (end int, cut bool) {
	for range maxBreaks {
		if at == len(s.text) {
			return at, !s.complete
		}
		switch s.text[at] {
		case ' ', '\t', '\r', '\n':
			at++
		case '\\':
			if at+1 == len(s.text) {
				return at, !s.complete
			}
			if c := s.text[at+1]; c != 'n' && c != 'r' {
				return at, false
			}
			at += 2
		default:
			return at, false
		}
	}
	return at, false
}

// keyBody reads the base64 of a key and its end line. rest is true for the held rest of a key, whose first line may be
// short. end is the end of the key so far; continues is true if the key may continue after the text.
func (s *scanner) keyBody(at int, rest bool) (end int, continues bool) {
	end = at
	for {
		from, cut := s.breaks(at)
		if cut {
			return end, true
		}
		to := from
		for to < len(s.text) && class[s.text[to]]&base64 != 0 {
			to++
		}
		long := to-from >= minKeyLine || rest && to > from
		if long {
			end = to
		}
		if to == len(s.text) && !s.complete {
			return end, true
		}
		if long {
			at, rest = to, false
			continue
		}
		last, cut := s.breaks(to)
		if cut {
			return end, true
		}
		switch v := s.prefix(last, len(s.text), !s.complete, endKey); v {
		case match:
			if to, v := s.label(last + len(endKey)); v == match {
				return to, false
			} else if v == noMatch {
				return end, false
			}
			return end, true
		case noMatch:
			return end, false
		}
		return end, true
	}
}

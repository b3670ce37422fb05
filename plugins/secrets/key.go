package secrets

const (
	maxLabel     = 40
	minKeyLine   = 16  // bytes of base64 in one piece, from which they are a key's
	maxBreaks    = 8   // spaces and ends of lines between two pieces
	maxHeaders   = 4   // header lines of an encrypted key
	maxHeader    = 90  // bytes of one
	maxKeyBefore = 200 // bytes before the base64, about
)

const endKey, dashes = "-----END ", "-----"

// key looks for a private key in PEM at i, where beginKey is: the line, header lines, then base64 up to the end line, or as far as
// there is base64 in pieces of at least minKeyLine bytes. It returns the position to go on from.
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
	end, goesOn := s.keyBody(at, false)
	switch {
	case goesOn:
		if end == at || !s.writeMask(i, privateKey) {
			s.hold = i
		}
		return len(s.text)
	case end == at:
		return after
	}
	return s.add(i, end, privateKey)
}

// isPrivate reports whether a label is that of a private key: "RSA PRIVATE KEY", "PGP PRIVATE KEY BLOCK".
func isPrivate(label []byte) bool {
	return endsWith(label, "PRIVATE KEY") || endsWith(label, "PRIVATE KEY BLOCK")
}

// label reads the rest of a begin or end line, and returns where it ends.
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

// header reads a header line, such as "DEK-Info: AES-256-CBC,…", with the breaks before it.
func (s *scanner) header(at int) (end int, v verdict) {
	at, cut := s.breaks(at)
	if cut {
		return 0, more
	}
	named := false
	for i := at; i < at+maxHeader; i++ {
		if i == len(s.text) {
			return 0, s.cut(!s.complete)
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

// breaks skips spaces and ends of lines, also those that are written \n. cut is true if more may follow the text.
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

// keyBody reads the base64 of a key and its end line. In the rest of a key the first piece may be a short one. goesOn is true if what
// is read may go on after the text; end is as far as it is certain.
func (s *scanner) keyBody(at int, rest bool) (end int, goesOn bool) {
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
